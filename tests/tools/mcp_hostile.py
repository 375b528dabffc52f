"""MCP servers that the official SDK would not let anybody write. `python mcp_hostile.py KIND`, over standard input."""

import json
import subprocess
import sys
import time

KIND = sys.argv[1]
OUT = sys.stdout.buffer


def tool(name, description="", schema=None, **more):
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **more}


def listed(params):
    if KIND == "many":
        return {"tools": [tool(f"tool_{n}") for n in range(500)]}
    if KIND == "endless":
        number = int(params.get("cursor") or 0)
        return {"tools": [tool(f"tool_{number}")], "nextCursor": str(number + 1)}
    if KIND == "lies":
        announced = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        return {
            "tools": [
                tool("announced", schema={"type": "object"}, outputSchema=announced),
                tool("no_schema", schema={"type": "object", "properties": {"a": {"type": "nothing"}}}),
                tool("elsewhere", schema={"type": "object", "properties": {"a": {"$ref": sys.argv[2]}}}),
                tool("pattern", schema={"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}),
                tool("circle", schema={"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}),
            ]
        }
    if KIND == "no-tools":
        return {"tools": "none"}
    if KIND == "broken":
        return {"tools": [tool("x", schema={"type": "object", "properties": 7})]}
    return {"tools": [tool("say", "Says something.")]}


def called(params):
    if KIND == "huge" and params["arguments"]:
        return {"content": [{"type": "text", "text": "x" * 100_000_000}]}
    if KIND == "lies":
        text = json.dumps(params.get("arguments"))
        return {"content": [{"type": "text", "text": f"the sum is 3, {text}"}], "structuredContent": {"sum": "three"}}
    if KIND == "parts":
        return {
            "content": [
                {"type": "text", "text": "a picture:"},
                {"type": "image", "data": "QUJDRA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "the file says hello"}},
                {"type": "resource_link", "uri": "file:///b.txt", "name": "b"},
            ]
        }
    if KIND == "nonsense":
        return {"content": "a text where a list should be"}
    return {"content": [{"type": "text", "text": "said"}]}


def main():
    if KIND == "greets":
        print("Welcome to the server!\n{not json\n", flush=True)
    if KIND == "ends":
        print("no licence found\nset LICENCE=…", file=sys.stderr)
        raise SystemExit(1)
    if KIND == "stays":
        subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or KIND == "silent":
            continue
        method, params = message["method"], message.get("params") or {}
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            about = {"name": "hostile", "version": "1"}
            version = params["protocolVersion"]
            reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            reply["result"] = listed(params)
        elif method == "tools/call":
            reply["result"] = called(params)
        else:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        OUT.write(json.dumps(reply).encode() + b"\n")
        OUT.flush()
    if KIND == "stays":
        time.sleep(600)


main()
