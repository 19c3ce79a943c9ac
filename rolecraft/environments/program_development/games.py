"""Games whose moves come from standard input."""

from __future__ import annotations

from random import Random

from rolecraft.environments.program_development.program import Program


def snake(text: str) -> str:
    """A snake on a board without walls around food that is given in advance."""
    lines = text.split("\n")
    width, height = map(int, lines[0].split())
    food = [tuple(map(int, pair.split(","))) for pair in lines[1].split()]
    steps = {"U": (0, -1), "D": (0, 1), "L": (-1, 0), "R": (1, 0)}
    body = [(width // 2, height // 2)]
    score, end = 0, "ALIVE"
    for move in lines[2].strip():
        dx, dy = steps[move]
        head = (body[0][0] + dx, body[0][1] + dy)
        if not (0 <= head[0] < width and 0 <= head[1] < height):
            end = "WALL"
            break
        eats = bool(food) and head == food[0]
        if head in (body if eats else body[:-1]):
            end = "SELF"
            break
        body.insert(0, head)
        if eats:
            score += 1
            food.pop(0)
        else:
            body.pop()
    cells = [["."] * width for _ in range(height)]
    if food:
        cells[food[0][1]][food[0][0]] = "*"
    for x, y in body[1:]:
        cells[y][x] = "o"
    cells[body[0][1]][body[0][0]] = "O"
    return "\n".join(["".join(row) for row in cells] + [f"score {score}", end]) + "\n"


def _draw_snake(draw: Random) -> str:
    width, height = draw.randint(3, 7), draw.randint(3, 6)
    food = [f"{draw.randrange(width)},{draw.randrange(height)}" for _ in range(draw.randint(1, 6))]
    moves = "".join(draw.choice("UDLR") for _ in range(draw.randint(3, 14)))
    return f"{width} {height}\n{' '.join(food)}\n{moves}\n"


SNAKE = Program(
    "snake",
    """
A command-line snake game whose moves are read in advance.

Line 1: the board's width and height. Line 2: the places of the food as `x,y` with a space between
them, x from the left and y from the top, both from 0. Line 3: the moves, one letter each: U, D, L,
R.

The snake begins as one cell at x = width // 2, y = height // 2. Only the first food that is not
eaten yet is on the board. When the snake's head moves onto it, the snake grows by one cell (its
tail stays), the score grows by 1 and the next food appears. Otherwise the tail moves on with the
snake, and the head may enter the cell that the tail leaves in that same move. The game ends at
once when the head would leave the board or would enter the snake's own body; that move is then not
made, and the moves after it are not played.

Print the board, a line for each row: `O` for the head, `o` for the rest of the body, `*` for the
food (the snake hides it), `.` for an empty cell. Then `score N`. Then `WALL` or `SELF` if the game
ended, else `ALIVE`.
""",
    snake,
    _draw_snake,
    "5 4\n3,2 4,2 0,0\nRRUL\n",
)


def tic_tac_toe(text: str) -> str:
    """Judge a game of tic-tac-toe move by move."""
    board = [" "] * 9
    wins = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    player, result, said = "X", "", []
    for move in text.split():
        if result:
            said.append("game over")
            continue
        if not (move.isdigit() and 1 <= int(move) <= 9 and board[int(move) - 1] == " "):
            said.append(f"illegal {move}")
            continue
        board[int(move) - 1] = player
        if any(all(board[cell] == player for cell in line) for line in wins):
            result = f"{player} wins"
        elif " " not in board:
            result = "draw"
        player = "O" if player == "X" else "X"
    rows = ["|".join(board[at : at + 3]) for at in (0, 3, 6)]
    return "\n".join([*said, *rows, result or f"{player} to move"]) + "\n"


def _draw_tic_tac_toe(draw: Random) -> str:
    moves = [str(cell) for cell in draw.sample(range(1, 10), 9)]
    for _ in range(draw.randint(0, 2)):
        moves.insert(draw.randrange(len(moves)), draw.choice(["0", "a", *moves]))
    return "\n".join(moves[: draw.randint(3, len(moves))]) + "\n"


TIC_TAC_TOE = Program(
    "tic_tac_toe",
    """
Tic-tac-toe for two. The input is a list of moves, one a line; X begins and they take turns. A move
is a cell from 1 to 9: 1 2 3 is the top row, 7 8 9 the bottom row.

A move that is no number from 1 to 9, or whose cell is taken, prints `illegal MOVE`, and the same
player moves again. Every move after the game is decided prints `game over` and changes nothing.

After these lines print the board, three rows of three cells with `|` between the cells and a space
for an empty cell. Then `X wins`, `O wins`, `draw`, or, if it is undecided, `X to move` or `O to
move`.
""",
    tic_tac_toe,
    _draw_tic_tac_toe,
    "5\n1\n5\n3\n7\n2\n",
)


def hangman(text: str) -> str:
    """Play hangman with guesses that are known in advance."""
    lines = text.split()
    word, guesses = lines[0], lines[1:]
    seen: list[str] = []
    wrong, said = 0, []
    for guess in guesses:
        if wrong == 6 or all(letter in seen for letter in word):
            break
        if guess in seen:
            said.append(f"{guess} again")
            continue
        seen.append(guess)
        if guess not in word:
            wrong += 1
        shown = " ".join(letter if letter in seen else "_" for letter in word)
        said.append(f"{shown} ({6 - wrong} left)")
    if all(letter in seen for letter in word):
        said.append("won")
    elif wrong == 6:
        said.append(f"lost, it was {word}")
    else:
        said.append("not finished")
    return "\n".join(said) + "\n"


def _draw_hangman(draw: Random) -> str:
    word = draw.choice(["planet", "banana", "python", "window", "letter", "zebra", "coffee"])
    letters = [*set(word), *"aeioutrnsl"]
    draw.shuffle(letters := sorted(letters))
    return "\n".join([word, *letters[: draw.randint(3, len(letters))]]) + "\n"


HANGMAN = Program(
    "hangman",
    """
Hangman. The first line is the secret word, in small letters; every further line is a guess of one
letter.

A letter that was guessed before prints `LETTER again` and costs nothing. Every other guess prints
the word with a space between its letters and `_` for letters not guessed yet, then ` (N left)`
where N is how many wrong guesses may still be made; there are 6 in all. When all letters are
guessed or no wrong guess is left, the game ends and further guesses are not read.

The last line is `won`, or `lost, it was WORD`, or `not finished` when the guesses ran out first.
""",
    hangman,
    _draw_hangman,
    "tree\ne\nx\ne\nt\n",
)


def game_of_life(text: str) -> str:
    """Conway's game of life on a board that is empty around its edge."""
    lines = text.split()
    generations, rows = int(lines[0]), lines[1:]
    height, width = len(rows), len(rows[0])
    alive = {(x, y) for y in range(height) for x in range(width) if rows[y][x] == "#"}
    for _ in range(generations):
        following = set()
        for y in range(height):
            for x in range(width):
                near = sum(
                    (x + dx, y + dy) in alive
                    for dx in (-1, 0, 1)
                    for dy in (-1, 0, 1)
                    if (dx, dy) != (0, 0)
                )
                if near == 3 or (near == 2 and (x, y) in alive):
                    following.add((x, y))
        alive = following
    shown = ["".join("#" if (x, y) in alive else "." for x in range(width)) for y in range(height)]
    return "\n".join([*shown, f"{len(alive)} alive"]) + "\n"


def _draw_game_of_life(draw: Random) -> str:
    width, height = draw.randint(3, 8), draw.randint(3, 6)
    rows = ["".join(draw.choice("#.") for _ in range(width)) for _ in range(height)]
    return "\n".join([str(draw.randint(0, 5)), *rows]) + "\n"


GAME_OF_LIFE = Program(
    "game_of_life",
    """
Conway's game of life. Line 1 is the number of generations to play. The lines after it are the
board: `#` is a live cell, `.` a dead one. All rows have the same length. Cells outside the board
are always dead.

In each generation a live cell with two or three live neighbours (of eight) stays alive, a dead
cell with exactly three becomes alive, and every other cell is dead.

Print the board after the last generation in the same form, then `N alive`.
""",
    game_of_life,
    _draw_game_of_life,
    "1\n.....\n..#..\n..#..\n..#..\n.....\n",
)


def bulls_and_cows(text: str) -> str:
    """Score the guesses of bulls and cows."""
    secret, *guesses = text.split()
    said = []
    for number, guess in enumerate(guesses, 1):
        if len(guess) != len(secret) or not guess.isdigit() or len(set(guess)) != len(guess):
            said.append(f"{number}: invalid")
            continue
        bulls = sum(a == b for a, b in zip(secret, guess, strict=True))
        cows = sum(digit in secret for digit in guess) - bulls
        said.append(f"{number}: {bulls} bulls, {cows} cows")
        if bulls == len(secret):
            said.append(f"solved in {number}")
            return "\n".join(said) + "\n"
    said.append("not solved")
    return "\n".join(said) + "\n"


def _draw_bulls_and_cows(draw: Random) -> str:
    def number() -> str:
        return "".join(draw.sample("0123456789", 4))

    secret = number()
    guesses = [number() for _ in range(draw.randint(2, 5))]
    guesses.insert(draw.randrange(len(guesses) + 1), draw.choice(["123", "1123", "12a4"]))
    if draw.random() < 0.5:
        guesses.insert(draw.randrange(1, len(guesses) + 1), secret)
    return "\n".join([secret, *guesses]) + "\n"


BULLS_AND_COWS = Program(
    "bulls_and_cows",
    """
The number game bulls and cows. The first line is the secret, digits that are all different. Every
further line is a guess. For guess number I (from 1) print `I: B bulls, C cows`: a bull is a digit
of the guess that stands at the same place in the secret, a cow one that is in the secret at another
place. A guess that has not as many characters as the secret, that has one that is no digit, or
that has a digit twice prints `I: invalid`; it counts as a guess.

When the secret is guessed, print also `solved in I` and read no further guess. If it never is, the
last line is `not solved`.
""",
    bulls_and_cows,
    _draw_bulls_and_cows,
    "4271\n1234\n1123\n4271\n",
)

GAMES = (SNAKE, TIC_TAC_TOE, HANGMAN, GAME_OF_LIFE, BULLS_AND_COWS)
