// Normalized types that the sample payloads of raw events get.

import { eventTables } from '#internal/providers/built-in/tables.ts'
import { unlistedType } from '#internal/providers/declared/event.ts'
import { mapValues, sortKeys } from './plain.ts'
import type { Difference } from './schema-diff.ts'

type Members = Readonly<Record<string, unknown>>
type Table = (typeof builtIn)[number]

const builtIn = Object.values(eventTables)

/** Types by provider, raw type, and the payload's members by dotted path as JSON. */
export type EventTypeSamples = Readonly<
  Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>
>

/** Returns the type of a minimal payload for every condition of every table. */
export function readEventTypes(tables: readonly Table[] = builtIn): EventTypeSamples {
  return mapValues(Object.fromEntries(tables.map((table) => [table.provider as string, table])), (table) => {
    const rawTypes = [...new Set(table.cases.map(({ rawType }) => rawType))]
    return sortKeys(Object.fromEntries(rawTypes.map((rawType) => [rawType, samplesOf(table, rawType)])))
  })
}

function samplesOf(table: Table, rawType: string): Readonly<Record<string, string>> {
  const samples = table.cases
    .filter((each) => each.rawType === rawType)
    .flatMap(({ conditions }) => membersOf(conditions))
    .map((members) => [JSON.stringify(sortKeys(members)), typeOf(table, rawType, members)] as const)
  return sortKeys(Object.fromEntries(samples))
}

/** Returns members that fulfil the conditions: one sample for each value of a condition, with the first value of the others. */
function membersOf(conditions: Table['cases'][number]['conditions']): readonly Members[] {
  const choices = conditions.map((condition) => ({
    path: condition.path,
    values: 'values' in condition ? condition.values : condition.isPresent ? ['x'] : [],
  }))
  const first = Object.fromEntries(
    choices.flatMap(({ path, values }) => (values.length > 0 ? [[path, values[0]]] : [])),
  )
  return [
    first,
    ...choices.flatMap(({ path, values }) => values.slice(1).map((value) => ({ ...first, [path]: value }))),
  ]
}

function typeOf(table: Table, rawType: string, members: Members): string {
  const body: Record<string, unknown> = {}
  for (const [path, value] of Object.entries(members)) {
    const names = path.split('.')
    const last = names.pop() ?? ''
    let at = body
    for (const name of names) at = at[name] = (at[name] ?? {}) as Record<string, unknown>
    at[last] = value
  }
  return table.typeOf(rawType, body) ?? unlistedType(table.provider, rawType)
}

/**
 * Compares the recorded types with those of these tables. Another type for the same event is breaking; a type for what was
 * `<provider>.<raw type>` is not.
 */
export function compareEventTypes(
  recorded: EventTypeSamples,
  tables: readonly Table[] = builtIn,
): readonly Difference[] {
  return Object.entries(recorded).flatMap(([provider, rawTypes]) => {
    const table = tables.find((each) => each.provider === provider)
    if (table === undefined) return [{ at: `types ${provider}`, change: 'removed', breaking: true }]
    return Object.entries(rawTypes).flatMap(([rawType, samples]) =>
      Object.entries(samples).flatMap(([members, type]) => {
        const next = typeOf(table, rawType, JSON.parse(members) as Members)
        const at = `types ${provider} ${rawType}${members === '{}' ? '' : ` ${members}`}`
        const breaking = type !== unlistedType(provider, rawType)
        return next === type ? [] : [{ at, change: `${type} became ${next}`, breaking }]
      }),
    )
  })
}
