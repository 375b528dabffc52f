"""Pictures, speech and video through the packages that read them, and through an omni model on loopback."""

import base64
import io
import json

import pytest

from subquest.errors import ToolError
from subquest.readers import images
from subquest.tools import media
from subquest.worlds.synthetic_media import can_draw, can_speak, draw, speak

from ..http_server import QuietHandler, serving


@pytest.fixture
def picture(tmp_path):
    pytest.importorskip("rapidocr")
    if not can_draw():
        pytest.skip("no drawing here")
    path = tmp_path / "sign.png"
    path.write_bytes(draw("The river Ostel is 412 km long."))
    return path


async def test_text_in_a_picture_is_read(picture):
    answer = await media.look(picture, "How long is it?", {})
    assert "412" in answer.text
    assert answer.how == "OCR (rapidocr)"


async def test_tesseract_reads_where_rapidocr_is_missing(picture, monkeypatch):
    if not images.shutil.which("tesseract"):
        pytest.skip("tesseract is not installed")
    monkeypatch.setattr(images, "_rapidocr", lambda: None)
    answer = await media.look(picture, "How long is it?", {})
    assert "412" in answer.text
    assert answer.how == "OCR (tesseract)"


@pytest.mark.slow
async def test_speech_is_heard(tmp_path):
    pytest.importorskip("faster_whisper")
    if not can_speak():
        pytest.skip("no speech synthesis here")
    path = tmp_path / "talk.wav"
    path.write_bytes(speak("The capital of the country is Berlin."))
    answer = await media.look(path, "What is the capital?", {})
    assert "berlin" in answer.text.lower()
    assert "whisper" in answer.how


@pytest.mark.slow
async def test_a_video_is_read_by_frames(tmp_path, picture):
    av = pytest.importorskip("av")
    numpy = pytest.importorskip("numpy")
    from PIL import Image

    image = Image.open(picture).convert("RGB").resize((640, 160))
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 640, 160, "yuv420p"
        stream.bit_rate = 4_000_000
        for _ in range(10):
            for packet in stream.encode(av.VideoFrame.from_ndarray(numpy.asarray(image), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    answer = await media.look(path, "What does it say?", {})
    assert "412" in answer.text
    assert "2 seconds" in answer.text


async def test_a_video_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    av = pytest.importorskip("av")
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuv420p"
        for packet in [*stream.encode(av.VideoFrame(640, 480, "yuv420p")), *stream.encode()]:
            container.mux(packet)
    monkeypatch.setattr(images, "PIXELS", 640 * 480 - 1)
    with pytest.raises(ToolError, match="640 by 480 pixels: too large"):
        await media.look(path, "?", {})


async def test_what_is_no_medium_is_refused(tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("hello")
    with pytest.raises(ToolError, match="is text"):
        await media.look(note, "?", {})
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(ToolError, match="cannot be read as an image"):
        await media.look(broken, "?", {})
    with pytest.raises(ToolError, match="No such file"):
        await media.look(tmp_path / "none.png", "?", {})


async def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path):
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.new("1", (9000, 9000)).save(buffer, "PNG")
    path = tmp_path / "bomb.png"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ToolError, match="too large"):
        await media.look(path, "?", {})


async def test_an_omni_model_is_asked_the_question_itself(picture, tmp_path):
    asked = []

    class Handler(QuietHandler):
        def do_POST(self):
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send(json.dumps({"choices": [{"message": {"content": "412 km"}}]}).encode())

    sound = tmp_path / "speech.mp3"
    sound.write_bytes(b"ID3\x04" + bytes(100))
    with serving(Handler) as url:
        env = {"SUBQUEST_OMNI_URL": f"{url}/v1", "SUBQUEST_OMNI_MODEL": "omni-7b"}
        answer = await media.look(picture, "How long is it?", env)
        await media.look(sound, "Who speaks?", env)
    assert (answer.text, answer.how) == ("412 km", "omni-7b")
    path, body = asked[0]
    image, text = body["messages"][0]["content"]
    assert path == "/v1/chat/completions"
    assert text["text"] == "How long is it?"
    assert base64.b64decode(image["image_url"]["url"].partition("base64,")[2]) == picture.read_bytes()
    assert asked[1][1]["messages"][0]["content"][0]["input_audio"]["format"] == "mp3"
