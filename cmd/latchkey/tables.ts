import { styleText } from 'node:util'

/** An absent value is shown as a hyphen. */
export type Cell = string | number | boolean | null | undefined

/** Columns by heading. A cell is a member of the item, by its name, or the result of a function of the item. */
export type Columns<Item> = Readonly<
  Record<
    string,
    { [Name in keyof Item]-?: Item[Name] extends Cell ? Name : never }[keyof Item] | ((item: Item) => Cell)
  >
>

type Colour = 'green' | 'yellow' | 'red'

const colours: ReadonlyMap<string, Colour> = new Map([
  ...['processed', 'delivered', 'completed', 'ok', 'True', 'ready'].map((word) => [word, 'green'] as const),
  ...['accepted', 'queued', 'running', 'soft', 'overridden'].map((word) => [word, 'yellow'] as const),
  ...['delivery_failed', 'failed', 'refused', 'hard', 'False', 'suspended'].map(
    (word) => [word, 'red'] as const,
  ),
])

/** Replaces control characters in external text, which a terminal would execute. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '\u{fffd}')
}

/** Aligns columns. @param paint adds colours to a cell that is already padded */
function columnsText(
  rows: readonly (readonly string[])[],
  paint: (padded: string, cell: string, row: number) => string,
): string {
  const widths =
    rows[0]?.map((_cell, at) => Math.max(...rows.map((row) => Bun.stringWidth(row[at] ?? '')))) ?? []
  const padded = (cell: string, width: number) =>
    cell + ' '.repeat(Math.max(0, width - Bun.stringWidth(cell)))
  return rows
    .map((row, index) => {
      const last = row.findLastIndex((cell) => cell !== '')
      const cells = row.slice(0, last + 1)
      return cells
        .map((cell, at) => paint(at === last ? cell : padded(cell, widths[at] ?? 0), cell, index))
        .join('  ')
    })
    .join('\n')
}

/** Lays out tables for a terminal, with or without colours. Texts in cells can be external. */
export class Tables {
  readonly #isColoured: boolean

  constructor(isColoured: boolean) {
    this.#isColoured = isColoured
  }

  list<Item>(items: readonly Item[], columns: Columns<Item>, none: string): string {
    if (items.length === 0) return none
    const rows = items.map((item) =>
      Object.values(columns).map((cell) => (typeof cell === 'function' ? cell(item) : (item[cell] as Cell))),
    )
    return this.#columns([Object.keys(columns), ...rows], (row) => row === 0)
  }

  details(fields: readonly (readonly [name: string, value: Cell])[]): string {
    const given = fields.filter(([, value]) => value !== null && value !== undefined && value !== '')
    return this.#columns(given, () => false)
  }

  #columns(rows: readonly (readonly Cell[])[], isHead: (row: number) => boolean): string {
    const texts = rows.map((row) => row.map((cell) => printable(String(cell ?? '-'))))
    return columnsText(texts, (padded, cell, row) => {
      const colour = isHead(row) ? 'bold' : colours.get(cell)
      return colour === undefined ? padded : this.paint(colour, padded)
    })
  }

  paint(style: Colour | 'bold', text: string): string {
    return this.#isColoured ? styleText(style, text, { validateStream: false }) : text
  }
}
