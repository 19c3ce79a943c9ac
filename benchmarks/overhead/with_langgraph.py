"""LangGraph: a graph of one node, and a cycle of two. Without a checkpointer, its fastest way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


async def model(messages: list[Any]) -> str:
    """The stub."""
    return "ok"


async def act(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(await model(state["messages"]))]}


@tool
async def echo(text: str) -> str:
    """Do it."""
    return text


async def call_then_answer(state: MessagesState) -> dict[str, Any]:
    if isinstance(state["messages"][-1], ToolMessage):
        return {"messages": [AIMessage("ok")]}
    calls = [{"name": "echo", "args": {"text": "hi"}, "id": "1"}]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def new() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("act", act)
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    return graph.compile()


def with_tool() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", call_then_answer)
    graph.add_node("tools", ToolNode([echo]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


READY = new()
WITH_TOOL = with_tool()


async def turn() -> None:
    await READY.ainvoke({"messages": [("user", "hi")]})


async def tool_turn() -> None:
    state = await WITH_TOOL.ainvoke({"messages": [("user", "hi")]})
    assert len(state["messages"]) == 4


async def exchange(messages: int) -> int:
    def then(other: str) -> Callable[[MessagesState], str]:
        return lambda state: other if len(state["messages"]) < messages else END

    graph = StateGraph(MessagesState)
    graph.add_node("ping", act)
    graph.add_node("pong", act)
    graph.add_edge(START, "ping")
    graph.add_conditional_edges("ping", then("pong"))
    graph.add_conditional_edges("pong", then("ping"))
    start = {"messages": [("user", "hi")]}
    state = await graph.compile().ainvoke(start, {"recursion_limit": messages + 10})
    return len(state["messages"])
