import { compareDocuments } from './openapi-diff.ts'
import { compareSchemas, type Difference, type Direction, type Schema, type Schemas } from './schema-diff.ts'
import type { ChartValues, Definition, Metric, PlainSetting, Surface } from './surface.ts'

/** Returns the differences between two versions, each with the name of its part in front, such as `metrics latchkey_…`. */
export function compareSurfaces(older: Surface, newer: Surface): readonly Difference[] {
  const parts: Readonly<Record<keyof Surface, readonly Difference[]>> = {
    public: compareDocuments(older.public, newer.public),
    internal: compareDocuments(older.internal, newer.internal),
    tenant: compareDefinitions(older.tenant, newer.tenant),
    metrics: compareMetrics(older.metrics, newer.metrics),
    settings: compareSettings(older.settings, newer.settings),
    values: compareValues(older.values, newer.values),
    commands: compareNames(older.commands, newer.commands),
    names: compareNames(older.names, newer.names),
    policy: comparePolicies(older.policy, newer.policy),
  }
  return Object.entries(parts).flatMap(([part, found]) => {
    const unique = new Map(found.map((each) => [lineOf(each), { ...each, at: `${part} ${each.at}` }]))
    return [...unique.values()]
  })
}

/** Returns a difference as one line: place and change. */
export function lineOf({ at, change }: Difference): string {
  return `${at}: ${change}`
}

type Versions<Value> = Readonly<Record<string, Value>>

/** Compares named things: `removed` is breaking, `added` is not, and `compare` returns the rest. */
function compareNamed<Value>(
  older: Versions<Value>,
  newer: Versions<Value>,
  compare: (before: Value, after: Value, at: string) => readonly Difference[],
): readonly Difference[] {
  const kept = Object.entries(older).flatMap(([at, before]) => {
    const after = newer[at]
    return after === undefined ? [{ at, change: 'removed', breaking: true }] : compare(before, after, at)
  })
  const added = Object.keys(newer).filter((at) => !Object.hasOwn(older, at))
  return [...kept, ...added.map((at) => ({ at, change: 'added', breaking: false }))]
}

function schemaDifferences(
  older: Schema,
  newer: Schema,
  at: string,
  direction: Direction,
): readonly Difference[] {
  return refDifferences({ schema: older, named: {} }, { schema: newer, named: {} }, at, direction)
}

interface Referring {
  readonly schema: Schema
  readonly named: Schemas
}

function refDifferences(
  older: Referring,
  newer: Referring,
  at: string,
  direction: Direction,
): readonly Difference[] {
  const found: Difference[] = []
  const report = (difference: Difference) => void found.push(difference)
  const how = { direction, older: older.named, newer: newer.named, compared: new Set<string>(), report }
  compareSchemas(older.schema, newer.schema, at, how)
  return found
}

/** Compares a CustomResourceDefinition: users write the spec, Latchkey writes the status. */
export function compareDefinitions(older: Definition, newer: Definition): readonly Difference[] {
  return compareNamed(older, newer, (before, after, at) => [
    ...(before.served && !after.served ? [{ at, change: 'no longer served', breaking: true }] : []),
    ...before.selectableFields
      .filter((each) => !after.selectableFields.includes(each))
      .map((each) => ({ at, change: `selectable field ${each} removed`, breaking: true })),
    ...schemaDifferences(before.spec, after.spec, `${at} spec`, 'request'),
    ...schemaDifferences(before.status, after.status, `${at} status`, 'answer'),
  ])
}

/** Compares metrics. A new label is compatible: queries that aggregate stay valid. */
export function compareMetrics(older: Versions<Metric>, newer: Versions<Metric>): readonly Difference[] {
  return compareNamed(older, newer, (before, after, at) => [
    ...(before.type === after.type
      ? []
      : [{ at, change: `${before.type} became ${after.type}`, breaking: true }]),
    ...before.labels
      .filter((each) => !after.labels.includes(each))
      .map((each) => ({ at, change: `label ${each} removed`, breaking: true })),
    ...after.labels
      .filter((each) => !before.labels.includes(each))
      .map((each) => ({ at, change: `label ${each} added`, breaking: false })),
  ])
}

/** Compares environment variables. */
export function compareSettings(
  older: Versions<PlainSetting>,
  newer: Versions<PlainSetting>,
): readonly Difference[] {
  const found = compareNamed(older, newer, (before, after, at) => [
    ...(before.type === after.type ? [] : [changed(at, 'type', before.type, after.type)]),
    ...(before.default === after.default ? [] : [changed(at, 'default', before.default, after.default)]),
  ])
  const required = Object.entries(newer).flatMap(([at, { requiredBy }]) =>
    requiredBy
      .filter((each) => !older[at]?.requiredBy.includes(each))
      .map((each) => ({ at, change: `required by ${each}`, breaking: true })),
  )
  return [...found, ...required]
}

function changed(at: string, what: string, before: unknown, after: unknown): Difference {
  const textOf = (value: unknown) => (value === undefined ? 'none' : JSON.stringify(value))
  return { at, change: `${what} ${textOf(before)} became ${textOf(after)}`, breaking: true }
}

/** Compares chart values: their schema, and the defaults of what both versions have. */
export function compareValues(older: ChartValues, newer: ChartValues): readonly Difference[] {
  const before = { schema: older.schema, named: older.definitions }
  const after = { schema: newer.schema, named: newer.definitions }
  const defaults = Object.entries(older.defaults).flatMap(([path, value]) => {
    const next = newer.defaults[path]
    const isKept = next === undefined || JSON.stringify(value) === JSON.stringify(next)
    return isKept ? [] : [changed(`.${path}`, 'default', value, next)]
  })
  return [...refDifferences(before, after, '', 'request'), ...defaults]
}

/** Compares lists of names, such as the commands of `latchkey` with their options. */
export function compareNames(
  older: Versions<readonly string[]>,
  newer: Versions<readonly string[]>,
): readonly Difference[] {
  return compareNamed(older, newer, (before, after, at) => [
    ...before
      .filter((each) => !after.includes(each))
      .map((each) => ({ at, change: `${each} removed`, breaking: true })),
    ...after
      .filter((each) => !before.includes(each))
      .map((each) => ({ at, change: `${each} added`, breaking: false })),
  ])
}

/** Compares the expressions of the admission policy: one more refuses what was accepted. */
export function comparePolicies(older: readonly string[], newer: readonly string[]): readonly Difference[] {
  return [
    ...newer
      .filter((each) => !older.includes(each))
      .map((each) => ({ at: each, change: 'added', breaking: true })),
    ...older
      .filter((each) => !newer.includes(each))
      .map((each) => ({ at: each, change: 'removed', breaking: false })),
  ]
}
