import type { ComponentChildren, Key } from 'preact'
import { link } from '../page.ts'
import { Icon } from './icon.tsx'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  /** Numbers are aligned at their end. */
  readonly isNumber?: boolean
  /** Takes what room the others leave, and is cut when it is too long. */
  readonly isWide?: boolean
  /** Is left out on a phone. */
  readonly isMinor?: boolean
  cell(row: Row): ComponentChildren
}

/**
 * A list as a table; on a phone each row is a card. The first column is the row's heading. Where there are no rows, `empty` stands
 * in its place.
 */
export function Table<Row>({
  caption,
  columns,
  rows,
  keyOf,
  empty,
}: {
  /** What is listed, for a screen reader. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  keyOf(row: Row): Key
  readonly empty: ComponentChildren
}) {
  if (rows.length === 0) return <>{empty}</>
  return (
    <div class="table-wrap" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, nth) =>
                nth === 0 ? (
                  <th key={column.title} scope="row" class={classOf(column)} data-label={column.title}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={classOf(column)} data-label={column.title}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function classOf({
  isNumber = false,
  isWide = false,
  isMinor = false,
}: Pick<Column<never>, 'isNumber' | 'isWide' | 'isMinor'>): string | undefined {
  const kind = isNumber ? 'is-number' : isWide ? 'is-wide' : ''
  const text = `${kind}${isMinor ? ' is-minor' : ''}`.trim()
  return text === '' ? undefined : text
}

/**
 * The way through a list that is as long as it may be: on to what follows, and back to the beginning. There is no page number and no
 * total, which nobody could count in time.
 */
export function Pager({
  path,
  query,
  next,
  shown,
  noun,
}: {
  readonly path: string
  /** The query of this page, which is kept but for `after`. */
  readonly query: Readonly<Record<string, string>>
  readonly next: string | undefined
  /** How many rows are on this page. */
  readonly shown: number
  /** What they are, in the plural. */
  readonly noun: string
}) {
  const { after, ...kept } = query
  if (after === undefined && next === undefined) return null
  return (
    <nav class="pager" aria-label={`Pages of ${noun}`}>
      <span class="pager-count">
        {shown} {noun} on this page
      </span>
      {after !== undefined && (
        <a class="button" href={link(path, kept)}>
          <Icon name="previous" /> Newest
        </a>
      )}
      {next !== undefined && (
        <a class="button" href={link(path, { ...kept, after: next })} rel="next">
          Older <Icon name="next" />
        </a>
      )}
    </nav>
  )
}
