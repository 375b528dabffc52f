"""Words after prompts: as likely as when the model writes them, and nothing is left behind but what prompts share."""

from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.interface import Choosing, Message, Sampling

PROMPTS = [
    [Message("system", "Say what the animal in the passage does. Use one word."), Message("user", f"Passage: {text}")]
    for text in ("The cat sleeps.", "A dog barks at the old postman every single morning.", "Birds sing.")
]


async def test_words_are_as_likely_as_when_they_are_written(engine: EmbeddedEngine) -> None:
    assert isinstance(engine, Choosing)
    for prompt in PROMPTS:
        session = await engine.open(prompt)
        turn = await session.generate(Sampling(max_tokens=1, logprobs=True))
        await session.close()
        assert turn.logprobs is not None
        word = engine.vocabulary.decode(turn.token_ids)
        rows = await engine.choose([prompt, *PROMPTS], [word, "zebra"])
        assert abs(rows[0][0] - turn.logprobs[0]) < 0.2  # passes of other widths round otherwise
        assert rows[0][1] < rows[0][0]
        assert len(rows) == 4
        alone = await engine.choose([prompt], [word, "zebra"])
        assert abs(alone[0][0] - rows[0][0]) < 0.2
    assert engine.scheduler.running == 0
    assert await engine.choose([], ["yes"]) == []
