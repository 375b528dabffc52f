"""The guard: nothing but public addresses, no hop unchecked, no limit passed. Only loopback is ever connected to."""

import re
import socket
import time

import pytest

from subquest.errors import ToolError, UsageError
from subquest.tools.fetch import Fetcher, FetchFailed, FetchLimits, FetchRefused

from .hostile import serve

QUICK = FetchLimits(bytes=1 << 20, seconds=120, delay=0)


@pytest.fixture
def site():
    with serve() as site:
        yield site


@pytest.fixture
async def fetcher(site):
    fetcher = Fetcher(allow=[f"127.0.0.1:{site.port}"], limits=QUICK, resolver=resolver({}))
    yield fetcher
    await fetcher.close()


def resolver(table):
    """A name server of our own: names in the table resolve, all others fail; nothing is looked up outside."""

    def resolve(host, port, family=0, type=0, proto=0, flags=0):
        try:
            return [
                (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port))
                for a in (table[host] if host in table else [_literal(host)])
            ]
        except ValueError:
            raise socket.gaierror(socket.EAI_NONAME, "unknown name") from None

    return resolve


def _literal(host):
    import ipaddress

    return str(ipaddress.ip_address(host))


def at(site, path):
    return f"http://127.0.0.1:{site.port}{path}"


REFUSED = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://localhost/",
    "http://①②⑦.⓪.⓪.①/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[2002:7f00:1::]/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://0.0.0.0/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://user@93.184.216.34/",
    "http://93.184.216.34:22/",
    "file:///etc/passwd",
    "ftp://93.184.216.34/",
    "gopher://93.184.216.34/",
    "data:text/plain,x",
    "//127.0.0.1/",
    "http://inner.example/",
    "http://mixed.example/",
    "http://mapped.example/",
    "http://cgnat.example/",
    "http://127.0.0.1.\t/",
    *("http://[::127.0.0.1]/", "http://[::ffff:0:127.0.0.1]/", "http://[::ffff:169.254.169.254]/"),
    *("http://[64:ff9b:1::7f00:1]/", "http://[2001:0:7f00:1::]/", "http://[fec0::1]/", "http://[ff02::1]/"),
    *("http://[2001:db8::1]/", "http://[100::1]/", "http://[fd00:ec2::254]/", "http://[0:0:0:0:0:ffff:7f00:1]/"),
    *("http://192.0.2.1/", "http://198.18.0.1/", "http://192.88.99.1/", "http://240.0.0.1/", "http://0.1.2.3/"),
    *("http://168.63.129.16/metadata", "http://169.254.169.254./", "http://metadata.example/", "http://LOCALHOST/"),
    *("http://localhost./", "http://017700000001/", "http://127。0。0。1/", "http:///127.0.0.1/", "https://127.0.0.1/"),
    *("http://93.184.216.34@127.0.0.1/", "http://127.0.0.1\\@93.184.216.34/", "http://127.0.0.1%2f@93.184.216.34/"),
    *("http://93.184.216.34:25/", "http://93.184.216.34:6379/", "ws://93.184.216.34/", "jar:http://x!/"),
]
NAMES = {
    "localhost": ["127.0.0.1"],
    "localhost.": ["127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "0x7f000001": ["127.0.0.1"],
    "inner.example": ["10.1.2.3"],
    "mixed.example": ["93.184.216.34", "127.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "cgnat.example": ["100.100.1.1"],
}


@pytest.mark.parametrize("url", REFUSED)
async def test_refused(url, monkeypatch):
    """No socket is opened: connecting anywhere fails the test."""

    def connect(self, address):
        raise AssertionError(f"a connection to {address} was tried")

    monkeypatch.setattr(socket.socket, "connect", connect)
    fetcher = Fetcher(resolver=resolver(NAMES), robots=False, limits=QUICK)
    with pytest.raises(ToolError) as caught:
        await fetcher.fetch(url)
    assert isinstance(caught.value, FetchRefused) or re.search("Unsupported|Invalid|protocol", str(caught.value))
    await fetcher.close()


async def test_the_loopback_site_needs_the_allow_list(site, fetcher):
    assert (await fetcher.fetch(at(site, "/article"))).status == 200
    stranger = Fetcher(limits=QUICK, robots=False)
    with pytest.raises(FetchRefused):
        await stranger.fetch(at(site, "/article"))
    await stranger.close()


async def test_an_allowed_host_opens_no_other_port_and_no_other_host(site, fetcher):
    with pytest.raises(FetchRefused):
        await fetcher.fetch("http://127.0.0.1:1/")
    with pytest.raises(FetchRefused):
        await fetcher.fetch(f"http://127.0.0.2:{site.port}/")


@pytest.mark.parametrize(
    "target",
    [
        *("http://127.0.0.1:1/x", "http://169.254.169.254/", "http://[::1]/", "file:///etc/passwd", "http://10.0.0.1/"),
        *("http://[", "http://a:b:c/", "//[/x", "http://127.0.0.1:99999/", "http://\x7f/"),
    ],
)
async def test_every_hop_is_checked(site, fetcher, target):
    with pytest.raises((FetchRefused, FetchFailed)):
        await fetcher.fetch(at(site, f"/to?{target}"))


async def test_redirects_are_followed_and_counted(site, fetcher):
    answer = await fetcher.fetch(at(site, "/moved"))
    assert answer.url.endswith("/article")
    with pytest.raises(FetchRefused, match="redirects more than 5 times"):
        await fetcher.fetch(at(site, "/loop"))
    assert site.asked.count("/loop") == 6


async def test_every_form_of_compression_is_read(site, fetcher):
    plain = (await fetcher.fetch(at(site, "/article"))).content
    assert (await fetcher.fetch(at(site, "/members"))).content == plain
    assert (await fetcher.fetch(at(site, "/bare"))).content == plain
    with pytest.raises(FetchFailed, match="cannot be fetched"):
        await fetcher.fetch(at(site, "/no-gzip"))


@pytest.mark.slow
async def test_compressed_answers_are_bounded_after_decoding(site, fetcher):
    plain = (await fetcher.fetch(at(site, "/article"))).content
    assert (await fetcher.fetch(at(site, "/gzip"))).content == plain
    assert (await fetcher.fetch(at(site, "/deflate"))).content == plain
    with pytest.raises(FetchRefused, match="larger than"):
        await fetcher.fetch(at(site, "/bomb"))
    with pytest.raises(FetchRefused, match="larger than"):
        await fetcher.fetch(at(site, "/bombs"))
    with pytest.raises(FetchRefused, match="encoding"):
        await fetcher.fetch(at(site, "/twice"))
    with pytest.raises(FetchRefused, match="larger than"):
        await fetcher.fetch(at(site, "/big"))


async def test_compressed_answers_are_bounded_before_decoding(site, fetcher):
    """Two megabytes that decode to nothing: without a limit of their own they could go on for ever."""
    with pytest.raises(FetchRefused, match="larger than"):
        await fetcher.fetch(at(site, "/empty-members"))


async def test_slow_answers_end(site):
    fetcher = Fetcher(allow=[f"127.0.0.1:{site.port}"], limits=FetchLimits(seconds=0.5), robots=False)
    with pytest.raises(FetchFailed, match="longer than"):
        await fetcher.fetch(at(site, "/slow"))
    await fetcher.close()


async def test_robots_are_respected(site, fetcher):
    with pytest.raises(FetchRefused, match="robots"):
        await fetcher.fetch(at(site, "/secret/page"))
    assert "/secret/page" not in site.asked
    await fetcher.fetch(at(site, "/article"))
    await fetcher.fetch(at(site, "/paper"))
    assert site.asked.count("/robots.txt") == 1


async def test_a_failing_robots_file_forbids(site):
    site.robots = ""
    fetcher = Fetcher(allow=[f"127.0.0.1:{site.port}"], limits=FetchLimits(seconds=120, attempts=1))
    with pytest.raises(ToolError, match=r"robots|busy"):
        await fetcher.fetch(at(site, "/article"))
    assert "/article" not in site.asked
    await fetcher.close()


async def test_busy_is_waited_for_and_never_an_empty_page(site, fetcher):
    site.busy = 2
    assert b"calm" in (await fetcher.fetch(at(site, "/busy"))).content
    site.busy = 99
    with pytest.raises(FetchFailed, match="busy"):
        await fetcher.fetch(at(site, "/busy"))


async def test_proxies_of_the_environment_are_ignored(site, fetcher, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert (await fetcher.fetch(at(site, "/article"))).status == 200


async def test_public_hosts_get_a_pause_between_requests(monkeypatch):
    fetcher = Fetcher(limits=FetchLimits(delay=0.2), robots=False)
    began = time.monotonic()
    for _ in range(3):
        await fetcher._take_turn("http://example.com/page")
    assert time.monotonic() - began >= 0.4


def test_a_wrong_network_in_the_allow_list_is_named():
    with pytest.raises(UsageError, match=r"10\.0\.0\.0/99"):
        Fetcher(allow=["10.0.0.0/99"])


async def test_a_name_that_changes_its_address_is_never_followed_inside(monkeypatch):
    """DNS rebinding: the address that was checked is the one that is connected to, whatever the name says next."""
    tried, asked = [], []

    def connect(self, address):
        tried.append(address[0])
        raise OSError("nobody there")

    def rebinding(host, port, family=0, type=0, proto=0, flags=0):
        asked.append(host)
        address = "93.184.216.34" if len(asked) % 2 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket.socket, "connect", connect)
    fetcher = Fetcher(resolver=rebinding, robots=False, limits=QUICK)
    for _ in range(4):
        with pytest.raises(ToolError):
            await fetcher.fetch("http://rebind.example/")
    await fetcher.close()
    assert set(tried) == {"93.184.216.34"}
    assert len(asked) == 4


# ---- https


@pytest.fixture
def secure(tmp_path):
    """A server with a certificate for wiki.intern, signed by an authority of our own."""
    trustme = pytest.importorskip("trustme", reason="makes the certificates of this test")
    import http.server
    import ssl
    import threading

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/inside":
                self.send_response(302)
                self.send_header("Location", "https://127.0.0.1/")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"secret")

        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("wiki.intern").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], str(tmp_path / "ca.pem")
    server.shutdown()
    server.server_close()


async def test_https_is_checked_against_the_name_and_the_authorities(secure):
    port, ca = secure
    names = resolver({"wiki.intern": ["127.0.0.1"], "other.intern": ["127.0.0.1"]})
    allow = [f"wiki.intern:{port}", f"other.intern:{port}", f"127.0.0.1:{port}"]
    trusting = Fetcher(allow=allow, robots=False, limits=QUICK, resolver=names, ca=ca)
    assert (await trusting.fetch(f"https://wiki.intern:{port}/")).content == b"secret"
    for host in ("other.intern", "127.0.0.1"):  # the certificate names another
        with pytest.raises(FetchFailed, match=r"(?i)certificate|IP address mismatch"):
            await trusting.fetch(f"https://{host}:{port}/")
    with pytest.raises(FetchRefused):
        await trusting.fetch(f"https://wiki.intern:{port}/inside")
    await trusting.close()
    public = Fetcher(allow=allow, robots=False, limits=QUICK, resolver=names)
    with pytest.raises(FetchFailed, match=r"(?i)certificate"):
        await public.fetch(f"https://wiki.intern:{port}/")
    await public.close()


async def test_unreadable_certificates_are_named(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="certificates in"):
        await Fetcher(ca=str(tmp_path / "ca.pem"), robots=False).fetch("https://example.org/")


# ---- the cache


@pytest.mark.slow
async def test_pages_come_from_the_cache_and_failures_never_do(site, tmp_path):
    from subquest.cache import Cache

    cache = Cache(tmp_path / "calls.sqlite")

    def fetcher(**options):
        allow = [f"127.0.0.1:{site.port}"]
        return Fetcher(**{"allow": allow, "robots": False, "limits": QUICK, "cache": cache, **options})

    for path in ("/article", "/moved", "/paper"):
        first = await fetcher().fetch(at(site, path))
        asked = len(site.asked)
        again = await fetcher().fetch(at(site, f"{path}#part"))
        assert (again, len(site.asked)) == (first, asked)
    for path, status in (("/missing", 404),):
        for _ in range(2):
            asked = len(site.asked)
            assert (await fetcher().fetch(at(site, path))).status == status
            assert len(site.asked) == asked + 1
    for path in ("/loop", "/bomb", "/to?http://10.0.0.1/"):
        for _ in range(2):
            asked = len(site.asked)
            with pytest.raises(ToolError):
                await fetcher().fetch(at(site, path))
            assert len(site.asked) > asked
    asked = len(site.asked)
    with pytest.raises(FetchRefused):  # the allow-list is part of the key
        await fetcher(allow=[]).fetch(at(site, "/article"))
    await fetcher(max_age=0.0).fetch(at(site, "/article"))
    assert len(site.asked) == asked + 1
    cache.close()


async def test_a_delay_of_any_length_in_robots_is_no_defect(site, monkeypatch):
    """The pause is bounded before it becomes a float: four hundred digits are more than one can hold."""
    site.robots = f"User-agent: *\nCrawl-delay: {'9' * 400}\nDisallow: /secret\n"
    monkeypatch.setattr("subquest.tools.fetch.PORTS", frozenset({site.port}))
    fetcher = Fetcher(allow=["127.0.0.0/8"], limits=FetchLimits(seconds=120, delay=0), resolver=resolver({}))
    fetcher._last = Never()
    assert (await fetcher.fetch(at(site, "/article"))).status == 200
    await fetcher.close()


class Never(dict):
    """Nobody has been asked yet: no pause is due."""

    def get(self, key, default=None):
        return default
