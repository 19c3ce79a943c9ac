"""Reinforcement learning algorithms: pure functions of numbers and tensors, and their settings.

Settings, checked and compared without torch: `clips.py` (how far an update may move an action),
`terms.py` (normalisation, penalties, critic, step groups), `settings.py` (`Algorithm`, all of them
together) and `presets.py` (published ones by name).

What credit needs, of lists and without torch: `advantages.py` (a reward against its group's),
`returns.py` (what followed an action), `steps.py` (GiGPO), `whitening.py` (over a batch). What the
trainer needs, of tensors: `losses.py`.
"""
