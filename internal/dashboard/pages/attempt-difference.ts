import { diffArrays } from 'diff'
import type { AttemptDetail, ShownExchange } from '#internal/backoffice/index.ts'
import { jsonTokens } from '../components/json.tsx'
import { durationText } from '../components/text.tsx'

export interface Difference {
  readonly name: string
  readonly before: string | undefined
  readonly after: string | undefined
}

/** Line that both texts or only one of them contains. `skipped` stands for equal lines that are far from a difference. */
export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added' | 'skipped'
  readonly text: string
}

/** Maximum compared lines of each text. The work grows with the square of this number. */
const linesMax = 400
/** Equal lines that are kept before and after a difference. */
const contextLines = 3

export function differencesOf(before: AttemptDetail, after: AttemptDetail): Difference[] {
  const [one, other] = [factsOf(before), factsOf(after)]
  return differing([...new Set([...one.keys(), ...other.keys()])], one, other)
}

function factsOf({ status, cause, durationMs, exchange }: AttemptDetail): Map<string, string> {
  const facts = new Map([['Result', status === null ? `no response: ${cause ?? ''}` : `answered ${status}`]])
  const add = (name: string, text: string | undefined) => text !== undefined && facts.set(name, text)
  const ms = (value: number | undefined) => (value === undefined ? undefined : durationText(value))
  add('Total', ms(durationMs))
  if (exchange === undefined) return facts
  const { request, isReused, address, dnsMs, connectMs, tlsMs, firstByteMs } = exchange
  add('DNS', ms(dnsMs))
  add('Connect', ms(connectMs))
  add('TLS', ms(tlsMs))
  add('First byte', ms(firstByteMs))
  add('Connection', isReused ? 'reused' : 'new')
  add('Address', address)
  add('URL', request.url)
  add('Body', `${request.bodyBytes} bytes`)
  return facts
}

/** Returns the headers that differ. A repeated header is compared by all its values. */
export function headerDifferences(
  before: ShownExchange['request']['headerLines'],
  after: ShownExchange['request']['headerLines'],
): Difference[] {
  const [one, other] = [valuesOf(before), valuesOf(after)]
  return differing([...new Set([...one.keys(), ...other.keys()])].toSorted(), one, other)
}

function valuesOf(headers: ShownExchange['request']['headerLines']): Map<string, string> {
  const grouped = Map.groupBy(headers, ({ name }) => name)
  return new Map([...grouped].map(([name, all]) => [name, all.map(({ value }) => value).join('\n')]))
}

function differing(
  names: readonly string[],
  one: ReadonlyMap<string, string>,
  other: ReadonlyMap<string, string>,
): Difference[] {
  return names.flatMap((name) => {
    const [before, after] = [one.get(name), other.get(name)]
    return before === after ? [] : [{ name, before, after }]
  })
}

/** Returns the lines of a text, with one line per member if it is JSON; at most 400. */
function linesOf(text: string): string[] {
  const shown = jsonTokens(text)
    .map((token) => token.text)
    .join('')
  return shown.split(/\r?\n/, linesMax)
}

/** Compares two texts line by line. Returns an empty list if all lines are equal. */
export function lineDifference(before: string, after: string): DiffLine[] {
  const [one, other] = [linesOf(before), linesOf(after)]
  const all = diffArrays(one, other).flatMap(({ value, added, removed }) =>
    value.map((text): DiffLine => ({ kind: added ? 'added' : removed ? 'removed' : 'same', text })),
  )
  return all.every(({ kind }) => kind === 'same') ? [] : nearDifferences(all)
}

function nearDifferences(all: readonly DiffLine[]): DiffLine[] {
  const near = new Set<number>()
  for (const [at, { kind }] of all.entries())
    if (kind !== 'same') for (let by = -contextLines; by <= contextLines; by += 1) near.add(at + by)
  return all.flatMap((line, at): DiffLine[] => {
    if (near.has(at)) return [line]
    return near.has(at - 1) || at === 0 ? [{ kind: 'skipped', text: '…' }] : []
  })
}
