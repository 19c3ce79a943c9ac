"""A role with tools against a real chat server: schemas go out, results go back, by their ids."""

from __future__ import annotations

from rolecraft import Role
from rolecraft.actions import tool


@tool(parallel=True)
async def read_register(name: str) -> int:
    """Read one register.

    Args:
        name: a letter.
    """
    return {"a": 1}[name]


def call(arguments: str, number: int):
    function = {"name": "read_register", "arguments": arguments}
    return {"id": f"call-{number}", "type": "function", "function": function}


async def test_a_role_with_tools_speaks_the_chat_apis_format(server, make_model):
    calls = [call('{"name": "a"}', 1), call('{"name": "', 2), call('{"name": "z"}', 3)]
    server.answers(
        server.chat(None, finish="tool_calls", tool_calls=calls), server.chat("It holds 1.")
    )
    role = Role(name="Ann", tools=[read_register], model=make_model())
    assert str(await role.run("What does a hold?")) == "Ann: It holds 1."
    first, second = server.requests
    assert first["tools"] == second["tools"]
    assert first["tools"][0]["function"] == {
        "name": "read_register",
        "description": "Read one register.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "a letter."}},
            "required": ["name"],
            "additionalProperties": False,
        },
    }
    results = [m for m in second["messages"] if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in results] == [
        ("call-1", "1"),
        (
            "call-2",
            "Error: `read_register` was called wrongly: its arguments are no JSON object: "
            '\'{"name": "\'',
        ),
        ("call-3", "Error: KeyError: 'z'"),
    ]
