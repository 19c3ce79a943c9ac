"""Rollouts on many machines: `RayStages` plays the stages of a pipeline in Ray actors."""

from rolecraft.rollouts.remote.errors import NotSendable, RaisedInWorker, WorkerLost
from rolecraft.rollouts.remote.ray_stages import RayStages, RemoteLive

__all__ = ["NotSendable", "RaisedInWorker", "RayStages", "RemoteLive", "WorkerLost"]
