"""LangGraph: a graph of one node, and a cycle of two. Without a checkpointer, its fastest way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


async def model(messages: list[Any]) -> str:
    """The stub."""
    return "ok"


async def act(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(await model(state["messages"]))]}


def new() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("act", act)
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    return graph.compile()


READY = new()


async def turn() -> None:
    await READY.ainvoke({"messages": [("user", "hi")]})


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
