"""The rollout benchmark's workload: CoDA-shaped episodes with output lengths like those of a trained model.

Every turn's length is drawn beforehand and forced, and queries come from the script, so both arms read and write
exactly the same numbers of tokens. Words are tokens. The search is a plain BM25 over a made-up corpus.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subquest.engine.chat_format import CHATML, encode_pieces
from subquest.engine.interface import Message, Sampling

WORDS = 49_000
DOCUMENTS_A_SEARCH = 3
DOCUMENT_WORDS = 120
PROMPT_WORDS = 260
"""Instructions of a role, the same in every episode."""
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML for servers, which refuse to chat with a model that has no template."""


def word(number: int) -> str:
    """Every fiftieth word ends like a tag, so that stop strings are looked for as often as in real turns."""
    return f" w{number}>" if number % 50 == 0 else f" w{number}"


def tokenizer() -> Any:
    """Words as tokens, ChatML's control tokens beside them."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"?": 0, **{word(n): n + 1 for n in range(WORDS)}}
    for extra in ("\n", "system", "user", "assistant"):
        vocabulary[extra] = len(vocabulary)
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n| ?[^ \n]+"), "isolated")
    plain.decoder = decoders.Fuse()
    plain.add_special_tokens([AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")])
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>", chat_template=TEMPLATE)


class Corpus:
    """Passages of words with a Zipf distribution, and BM25 over them."""

    def __init__(self, passages: int, seed: int = 0) -> None:
        chance = np.random.default_rng(seed)
        ranks = np.minimum(chance.zipf(1.2, (passages, DOCUMENT_WORDS)), 20_000)
        self.passages = ["".join(map(word, row)) for row in ranks.tolist()]
        k1, b = 0.9, 0.4
        documents = np.repeat(np.arange(passages), DOCUMENT_WORDS)
        pairs, counts = np.unique(np.stack([ranks.reshape(-1), documents]), axis=1, return_counts=True)
        terms, starts = np.unique(pairs[0], return_index=True)
        ends = np.append(starts[1:], pairs.shape[1])
        frequency = ends - starts
        inverse = np.log(1 + (passages - frequency + 0.5) / (frequency + 0.5))
        self._lists = {
            int(term): (
                pairs[1, s:e],
                (i * counts[s:e] * (k1 + 1) / (counts[s:e] + k1 * (1 - b + b))).astype(np.float32),
            )
            for term, s, e, i in zip(terms, starts, ends, inverse, strict=True)
        }

    def search(self, query: Sequence[int]) -> str:
        """The best passages of a query, as one observation."""
        scores = np.zeros(len(self.passages), np.float32)
        for term in query:
            if term in self._lists:
                documents, weights = self._lists[term]
                scores[documents] += weights
        best = np.argpartition(-scores, DOCUMENTS_A_SEARCH)[:DOCUMENTS_A_SEARCH]
        return "".join(self.passages[i] for i in best)


@dataclass(frozen=True, slots=True)
class Task:
    query_words: tuple[tuple[int, ...], ...]
    """One query for each search."""
    lengths: tuple[int, ...]
    """Tokens of the executor's turns: one before each search, one for the result."""


@dataclass(frozen=True, slots=True)
class Script:
    """One episode: what the planner is asked, and how long every turn becomes."""

    question: str
    tasks: tuple[Task, ...]
    planner_lengths: tuple[int, ...]


def scripts(questions: int, rollouts: int, seed: int = 0) -> list[Script]:
    """Lengths are log-normal with a limit, as turns of trained models are: most short, a few at the limit."""
    chance = np.random.default_rng(seed)

    def length(median: float) -> int:
        return int(np.clip(median * chance.lognormal(0, 0.5), 8, 256))

    made = []
    for _ in range(questions):
        question = "".join(word(int(n)) for n in chance.integers(100, 20_000, 18))
        for _ in range(rollouts):
            tasks = []
            for _ in range(int(chance.choice([1, 2, 3, 4], p=[0.2, 0.4, 0.3, 0.1]))):
                searches = int(chance.choice([1, 2, 3], p=[0.5, 0.35, 0.15]))
                queries = tuple(tuple(int(n) for n in chance.integers(1, 3_000, 8)) for _ in range(searches))
                tasks.append(Task(queries, (length(25), *(length(70) for _ in range(searches)))))
            planner = (*(length(40) for _ in tasks), length(20))
            made.append(Script(question, tuple(tasks), planner))
    return made


def instructions(role: str, words: int = PROMPT_WORDS) -> str:
    first = 20_000 if role == "planner" else 21_000
    return "".join(word(first + n) for n in range(words))


def text(length: int, seed: int) -> str:
    """A task or result as it appears in another role's context."""
    return "".join(word((seed * 7919 + n * 31) % 20_000) for n in range(min(length, 40)))


class Totals(NamedTuple):
    seconds: float
    written: int
    read: int
    attended: int = 0
    """Cached tokens that decoding had to read: for each token written, the context before it."""
    chain: int = 0
    """Tokens of the longest episode, which must be written one after the other."""

    def counts(self) -> dict[str, int]:
        """What does not depend on the engine."""
        return {"written": self.written, "read": self.read, "attended": self.attended, "chain": self.chain}


async def overlapped(
    engine: Any,
    corpus: Corpus,
    episodes: Sequence[Script],
    closed: list[Any] | None = None,
    prompt_words: int = PROMPT_WORDS,
) -> Totals:
    """Every episode is a coroutine; searches run beside generation. Sessions that end are put into `closed`."""
    attended = 0
    planner, executor = (Message("system", instructions(role, prompt_words)) for role in ("planner", "executor"))

    async def turn(session: Any, length: int, seed: int) -> None:
        nonlocal attended
        attended += length * session.context_tokens + length * (length - 1) // 2
        reply = await session.generate(
            Sampling(max_tokens=length, temperature=1.0, seed=seed, stop=("</task>", "</search>"), logprobs=True)
        )
        if len(reply.token_ids) != length:
            raise RuntimeError(f"a turn has {len(reply.token_ids)} tokens instead of {length}: nothing to compare")

    async def end(session: Any) -> None:
        await session.close()
        if closed is not None:
            closed.append(session)

    async def execute(task: Task, seed: int) -> None:
        session = await engine.open([executor, Message("user", text(30, seed))])
        await turn(session, task.lengths[0], seed)
        for query, length in zip(task.query_words, task.lengths[1:], strict=True):
            await session.append(await asyncio.to_thread(corpus.search, query))
            await turn(session, length, seed + length)
        await end(session)

    async def episode(script: Script, seed: int) -> None:
        session = await engine.open([planner, Message("user", script.question)])
        for number, task in enumerate(script.tasks):
            await turn(session, script.planner_lengths[number], seed + number)
            await execute(task, seed * 5 + number)
            await session.append(text(task.lengths[-1], seed + number))
        await turn(session, script.planner_lengths[-1], seed)
        await end(session)

    start = time.perf_counter()
    await asyncio.gather(*(episode(script, 1000 * n) for n, script in enumerate(episodes)))
    seconds = time.perf_counter() - start
    return Totals(seconds, *_tokens(episodes, prompt_words), attended, max(map(_written, episodes)))


def _written(script: Script) -> int:
    return sum(script.planner_lengths) + sum(sum(task.lengths) for task in script.tasks)


def _tokens(episodes: Sequence[Script], prompt_words: int = PROMPT_WORDS) -> tuple[int, int]:
    written = sum(map(_written, episodes))
    observed = DOCUMENTS_A_SEARCH * DOCUMENT_WORDS
    read = sum(
        (1 + len(s.tasks)) * prompt_words + sum(observed * len(t.query_words) for t in s.tasks) for s in episodes
    )
    return written, read


Request = tuple[list[int], int]
"""A context and how many tokens are to be written after it."""


def lockstep(
    model: Any, vocabulary: Any, corpus: Corpus, episodes: Sequence[Script], say: Callable[[str], None]
) -> Totals:
    """The peer: all episodes wait for one another; each round is one padded `model.generate` over whole contexts."""
    import torch
    from transformers import StoppingCriteria

    class Lengths(StoppingCriteria):  # type: ignore[misc]
        """Rows end at their own length; `generate` returns when the last one has."""

        def __init__(self, width: int, lengths: Any) -> None:
            self.width, self.lengths = width, lengths

        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            return input_ids.shape[1] - self.width >= self.lengths

    def encode(pieces: Any) -> list[int]:
        return encode_pieces(pieces, vocabulary.encode)

    def generate(requests: Sequence[Request]) -> list[list[int]]:
        width = max(len(ids) for ids, _ in requests)
        ids = torch.zeros((len(requests), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, (context, _) in enumerate(requests):
            ids[row, width - len(context) :] = torch.tensor(context)
            mask[row, width - len(context) :] = 1
        lengths = torch.tensor([n for _, n in requests], device=model.device)
        out = model.generate(
            ids.to(model.device), attention_mask=mask.to(model.device), do_sample=True, temperature=1.0, top_k=0,
            top_p=1.0, max_new_tokens=int(lengths.max()), pad_token_id=0, eos_token_id=None,
            stopping_criteria=[Lengths(width, lengths)],
        )[:, width:].tolist()  # fmt: skip
        return [row[:n] for row, (_, n) in zip(out, requests, strict=True)]

    def execute(task: Task, seed: int) -> Generator[Request, list[int], None]:
        messages = [Message("system", instructions("executor")), Message("user", text(30, seed))]
        context = encode(CHATML.opening(messages))
        context += yield context, task.lengths[0]
        for query, length in zip(task.query_words, task.lengths[1:], strict=True):
            context += encode(CHATML.environment(corpus.search(query), "chat", ended=False))
            context += yield context, length

    def episode(script: Script, seed: int) -> Generator[Request, list[int], None]:
        messages = [Message("system", instructions("planner")), Message("user", script.question)]
        context = encode(CHATML.opening(messages))
        for number, task in enumerate(script.tasks):
            context += yield context, script.planner_lengths[number]
            yield from execute(task, seed * 5 + number)
            context += encode(CHATML.environment(text(task.lengths[-1], seed + number), "chat", ended=False))
        context += yield context, script.planner_lengths[-1]

    if model.device.type == "cuda":
        generate([([1] * 1700, 64)] * len(episodes))  # libraries and the allocator are set up for the widest round
    start = time.perf_counter()
    running = [episode(script, 1000 * n) for n, script in enumerate(episodes)]
    waiting = [(one, next(one)) for one in running]
    while waiting:
        replies = generate([request for _, request in waiting])
        say(f"round of {len(waiting)} rows over, {time.perf_counter() - start:.1f} s so far")
        following = []
        for (one, _), reply in zip(waiting, replies, strict=True):
            try:
                following.append((one, one.send(reply)))
            except StopIteration:
                continue
        waiting = following
    return Totals(time.perf_counter() - start, *_tokens(episodes))
