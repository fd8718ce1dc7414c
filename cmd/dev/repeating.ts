/** As many lines as leave a usual terminal. */
const linesMax = 40

/** Says lines on, and after each 40 of them once more what has scrolled away by then. */
export function repeating(say: (line: string) => void, scrolledAway: () => string): (line: string) => void {
  let lines = 0
  return (line) => {
    say(line)
    lines += 1
    if (lines % linesMax === 0) say(scrolledAway())
  }
}
