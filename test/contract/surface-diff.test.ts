import { expect, test } from 'bun:test'
import type { Difference } from './schema-diff.ts'
import { metricsOf } from './surface.ts'
import {
  compareDefinitions,
  compareMetrics,
  compareNames,
  comparePolicies,
  compareSettings,
  compareValues,
  lineOf,
} from './surface-diff.ts'

const breakingOf = (found: readonly Difference[]) => found.filter(({ breaking }) => breaking).map(lineOf)

const counter = { type: 'counter', labels: ['outcome'] }
test.each<[what: string, newer: Parameters<typeof compareMetrics>[1], expected: readonly string[]]>([
  ['a metric is added', { a_total: counter, b_total: counter }, []],
  ['a metric is removed', {}, ['a_total: removed']],
  ['a label is added', { a_total: { ...counter, labels: ['outcome', 'provider'] } }, []],
  ['a label is removed', { a_total: { ...counter, labels: [] } }, ['a_total: label outcome removed']],
  ['a type changes', { a_total: { ...counter, type: 'gauge' } }, ['a_total: counter became gauge']],
])('metrics comparison: where %s, the breaking differences are reported', (_what, newer, expected) => {
  expect(breakingOf(compareMetrics({ a_total: counter }, newer))).toEqual([...expected])
})

const setting = { type: 'port', default: '8080', requiredBy: [] }
test.each<[what: string, newer: Parameters<typeof compareSettings>[1], expected: readonly string[]]>([
  ['an optional setting is added', { A: setting, B: setting }, []],
  [
    'a required setting is added',
    { A: setting, B: { ...setting, requiredBy: ['api'] } },
    ['B: required by api'],
  ],
  ['a setting is removed', {}, ['A: removed']],
  ['a default changes', { A: { ...setting, default: '80' } }, ['A: default "8080" became "80"']],
  ['a type changes', { A: { ...setting, type: 'line' } }, ['A: type "port" became "line"']],
])('settings comparison: where %s, the breaking differences are reported', (_what, newer, expected) => {
  expect(breakingOf(compareSettings({ A: setting }, newer))).toEqual([...expected])
})

test.each<[what: string, newer: Parameters<typeof compareNames>[1], expected: readonly string[]]>([
  ['a command and an option are added', { replay: ['--by', '--to'], check: [] }, []],
  ['a command is removed', {}, ['replay: removed']],
  ['an option is removed', { replay: [] }, ['replay: --by removed']],
])('names comparison: where %s, the breaking differences are reported', (_what, newer, expected) => {
  expect(breakingOf(compareNames({ replay: ['--by'] }, newer))).toEqual([...expected])
})

const replicas = { type: 'integer', minimum: 1 }
const values = { schema: { properties: { replicas } }, definitions: {}, defaults: { replicas: 2 } }
test.each<[what: string, newer: Parameters<typeof compareValues>[1], expected: readonly string[]]>([
  ['a value is added', { ...values, schema: { properties: { replicas, port: {} } } }, []],
  ['a value is removed', { ...values, schema: {}, defaults: {} }, ['.replicas: removed']],
  ['a default changes', { ...values, defaults: { replicas: 1 } }, ['.replicas: default 2 became 1']],
  [
    'a bound becomes narrower',
    { ...values, schema: { properties: { replicas: { ...replicas, minimum: 2 } } } },
    ['.replicas: minimum 1 became 2'],
  ],
])('values comparison: where %s, the breaking differences are reported', (_what, newer, expected) => {
  expect(breakingOf(compareValues(values, newer))).toEqual([...expected])
})

const version = {
  served: true,
  selectableFields: ['.spec.slug'],
  spec: { properties: { slug: { type: 'string', maxLength: 63 } } },
  status: { properties: { ready: { enum: ['yes', 'no'] } } },
}
test.each<[what: string, change: Partial<typeof version>, expected: readonly string[]]>([
  ['nothing changes', {}, []],
  ['a version is no longer served', { served: false }, ['v1: no longer served']],
  ['a selectable field is removed', { selectableFields: [] }, ['v1: selectable field .spec.slug removed']],
  [
    'a field of the spec becomes narrower',
    { spec: { properties: { slug: { type: 'string', maxLength: 32 } } } },
    ['v1 spec.slug: maxLength 63 became 32'],
  ],
  [
    'the status gets a value',
    { status: { properties: { ready: { enum: ['yes', 'no', 'later'] } } } },
    ['v1 status.ready: value "later" added'],
  ],
])('definition comparison: where %s, the breaking differences are reported', (_what, change, expected) => {
  expect(breakingOf(compareDefinitions({ v1: version }, { v1: { ...version, ...change } }))).toEqual([
    ...expected,
  ])
})

test('definition comparison: a removed version is reported', () => {
  expect(breakingOf(compareDefinitions({ v1: version }, { v2: version }))).toEqual(['v1: removed'])
})

test('metrics of sources: every form of declaration is read, with its labels', () => {
  const text = `
    const labels = ['loop'] as const
    metrics.counter({ name: 'latchkey_a_total', help: 'A.', labels: ['x', 'y'] })
    metrics.gauge({ name: 'latchkey_b_count', help: 'B.', labels })
    gauge('latchkey_c_count', 'C.', () => 1)
    add('process_d_bytes', 'D.', 'gauge', () => [{ labels: { version }, value: 1 }])`
  expect(metricsOf(new Map([['a.ts', text]]))).toEqual({
    latchkey_a_total: { type: 'counter', labels: ['x', 'y'] },
    latchkey_b_count: { type: 'gauge', labels: ['loop'] },
    latchkey_c_count: { type: 'gauge', labels: [] },
    process_d_bytes: { type: 'gauge', labels: ['version'] },
  })
})

test('metrics of sources: a metric name outside a declaration causes an error that names the file', () => {
  expect(() => metricsOf(new Map([['a.ts', `const name = 'latchkey_a_total'`]]))).toThrow('a.ts')
})

test('policy comparison: an added expression is a breaking difference, and a removed expression is not', () => {
  expect(breakingOf(comparePolicies(['a == b'], ['a == c']))).toEqual(['a == c: added'])
})
