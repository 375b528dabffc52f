"""Settings of the interpreter come back when the last one who needs them is gone, whoever that is."""

import gc
import sys

from subquest.interpreter import GARBAGE, SWITCH, quickly_switched, rarely_collected


def test_the_last_user_sets_it_back() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    first, second = rarely_collected(), rarely_collected()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (max(before[0][0], GARBAGE), *before[0][1:])
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] >= GARBAGE
    second.__exit__(None, None, None)
    with quickly_switched():
        assert abs(sys.getswitchinterval() - min(before[1], SWITCH)) < 1e-6
    assert (gc.get_threshold(), sys.getswitchinterval()) == before
