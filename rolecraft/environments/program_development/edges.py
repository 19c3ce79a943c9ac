"""Inputs at the edges of the programs whose tests are drawn, which chance seldom finds.

They are hidden tests of the 32 tasks of `program_dev`, beside those that are drawn. What is right
for them is what the reference says.
"""

EDGES: dict[str, tuple[str, ...]] = {
    "snake": (
        "3 3\n2,1 2,2 1,2\nRDLUR\n",  # after three bites it goes round, its head behind its tail
        "1 1\n0,0\nU\n",
    ),
    "tic_tac_toe": ("3\n1\n5\n2\n7\n9\n", "1\n2\n3\n5\n4\n6\n8\n7\n9\n", ""),
    "hangman": ("noon\nn\nn\no\nx\n", "a\nb\nc\nd\ne\nf\ng\na\n"),
    "game_of_life": ("0\n.#\n#.\n", "1\n###\n###\n###\n", "2\n.....\n..#..\n..#..\n..#..\n.....\n"),
    "bulls_and_cows": ("123\n11\n112\n321\n", "1\n1\n1\n", "5678\n"),
    "text_statistics": ("", "123 !?\n", "b a\nB A c\n"),
    "to_do_list": ("list\n", "done 1\nadd\nadd two words \ndone 0\nremove 1\nlist\n"),
    "word_wrap": ("3\na b c\nabc d\nabcd\n", "5\n\n"),
    "caesar": ("encrypt 3 xyz XYZ 9!\ndecrypt 3 abc ABC\n", "encrypt 26 same\ndecrypt 27 a b\n"),
    "csv_totals": ("group,amount\n", "amount,group\n-5,b\n5,a\nx,a\n1\n"),
    "rpn_calculator": ("-7 2 /\n7 -2 /\n", "5\n1 2 3 + +\n2 3 -\n"),
    "bank": (
        "open ann\nopen bob\ndeposit ann 5\ntransfer ann bob 5\ntransfer bob bob 5\nopen ann\n",
        "transfer ann bob 1\ndeposit ann 1\n",
    ),
    "change": ("1 3 4\n6\n0\n", "5 10\n3\n15\n"),
    "roman": ("1 3999 4000 0\n", "MCMXCIV IIII IC cm MMMCMXCIX\n", "4 9 40 90 400 900\n"),
}
