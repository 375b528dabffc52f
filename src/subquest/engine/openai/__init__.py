"""OpenAI-compatible endpoints.

    engine = OpenAIEngine("qwen3-8b", base_url="http://localhost:8000/v1")

`endpoint` talks HTTP within `rate_limits`, `failures` explains errors, `server_facts` holds what is known about the
server, `reply` parses answers, `session` holds contexts, `tool_calls` turns native tool calls into tags, `tokenizer`
and `prices` hold what they say, `engine` is the public class.
"""

from ..actions import Action, CallsTools
from ..interface import Retry
from .endpoint import Endpoint
from .engine import OpenAIEngine
from .prices import Price, load_prices
from .rate_limits import Limits
from .tokenizer import HuggingFaceTokenizer, Tokenizer

__all__ = [
    "Action",
    "CallsTools",
    "Endpoint",
    "HuggingFaceTokenizer",
    "Limits",
    "OpenAIEngine",
    "Price",
    "Retry",
    "Tokenizer",
    "load_prices",
]
