"""Making tasks: bugs planted in real code, validated, gathered, described as issues.

    plan      what the project is, how its tests run, what they do while nothing is wrong
    plant     candidates: small changes of the code, each a bug that somebody could have made
    validate  which of them some tests notice, the same ones each time
    gather    the rest become tasks: rows, patches, a git history
    describe  words about the symptom, which name nothing of the solution

Each step reads what the one before has written into one folder (`SynthesisFolder`), writes its own
part, and goes on where it was when it is called again.
"""
