import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { testSeed } from '#test/support/seed.ts'
import { describeExecution, type ExecutionFacts, type ExecutionNote } from './execution.ts'
import { factsOf, joinFacts } from './join-execution-notes.ts'

const address = { tenantId: someTenantId(), scope: 's', key: 'k' }
const acquiredAtMs = Date.parse('2026-11-21T10:00:00Z')
const fence = acquiredAtMs * 1000 + 123

const atMs = fc.integer({ min: acquiredAtMs, max: acquiredAtMs + 5 })
const heldMs = fc.integer({ min: 1, max: 4 }).map((seconds) => seconds * 1000)
const anyNote: fc.Arbitrary<ExecutionNote> = fc.oneof(
  fc.record({ kind: fc.constant('acquired'), fence: fc.constant(fence), heldMs }),
  fc.record({ kind: fc.constant('extended'), fence: fc.constant(fence), atMs, heldMs }),
  fc.record({
    kind: fc.constant('completed'),
    fence: fc.constant(fence),
    atMs,
    status: fc.constantFrom(200, 500),
  }),
  fc.record({ kind: fc.constantFrom('released', 'taken_over'), fence: fc.constant(fence), atMs }),
)
const anyFacts = fc
  .array(anyNote, { minLength: 1, maxLength: 3 })
  .map((notes) => joinAll(notes.map((note) => factsOf(address, note))))

function joinAll(facts: readonly ExecutionFacts[]): ExecutionFacts {
  return facts.reduce(joinFacts)
}

describe('joining what is known of an execution', () => {
  test('gives the same in any order, grouping and repetition', () => {
    const property = fc.property(anyFacts, anyFacts, anyFacts, (a, b, c) => {
      expect(joinFacts(a, b)).toEqual(joinFacts(b, a))
      expect(joinFacts(joinFacts(a, b), c)).toEqual(joinFacts(a, joinFacts(b, c)))
      expect(joinFacts(a, a)).toEqual(a)
    })
    fc.assert(property, { numRuns: 2_000, seed: testSeed() })
  })

  const extended = (at: number, held: number): ExecutionNote => ({
    kind: 'extended',
    fence,
    atMs: acquiredAtMs + at,
    heldMs: held,
  })
  const acquired: ExecutionNote = { kind: 'acquired', fence, heldMs: 60_000 }
  test.each<[string, ExecutionNote[], Partial<ExecutionFacts>]>([
    [
      'a shorter time that was asked for later counts',
      [acquired, extended(10, 1_000)],
      { heldUntilMs: acquiredAtMs + 1_010, extendedAtMs: acquiredAtMs + 10 },
    ],
    [
      'a longer time that was asked for before does not',
      [extended(20, 500), extended(10, 90_000), acquired],
      { heldUntilMs: acquiredAtMs + 520, extendedAtMs: acquiredAtMs + 20 },
    ],
    [
      'the first of two ends counts, with its status',
      [
        { kind: 'completed', fence, atMs: acquiredAtMs + 9, status: 201 },
        { kind: 'taken_over', fence, atMs: acquiredAtMs + 70_000 },
        { kind: 'completed', fence, atMs: acquiredAtMs + 80_000, status: 500 },
      ],
      { ending: 'completed', endedAtMs: acquiredAtMs + 9, status: 201 },
    ],
    [
      'an end alone leaves open until when the lock was held',
      [{ kind: 'released', fence, atMs: acquiredAtMs + 9 }],
      { ending: 'released', heldUntilMs: null, status: null },
    ],
  ])('%s', (_name, notes, expected) => {
    expect(joinAll(notes.map((note) => factsOf(address, note)))).toMatchObject(expected)
  })
})

describe('an execution', () => {
  const held: ExecutionNote = { kind: 'acquired', fence, heldMs: 1_000 }
  test.each<[string, ExecutionNote[], number, object]>([
    [
      'is running while its lock is held',
      [held],
      999,
      { state: 'running', durationMs: null, endedAtMs: null },
    ],
    [
      'is expired once it is not',
      [held],
      1_000,
      { state: 'expired', durationMs: null, heldUntilMs: acquiredAtMs + 1_000 },
    ],
    [
      'is completed also when that came late',
      [held, { kind: 'completed', fence, atMs: acquiredAtMs + 2_500, status: 204 }],
      9_000,
      { state: 'completed', durationMs: 2_500, status: 204 },
    ],
    [
      'has lasted no less than nothing when the clock went back',
      [{ kind: 'taken_over', fence, atMs: acquiredAtMs - 50 }],
      0,
      { state: 'taken_over', durationMs: 0 },
    ],
  ])('%s', (_name, notes, laterMs, expected) => {
    const facts = joinAll(notes.map((note) => factsOf(address, note)))
    const execution = describeExecution(facts, acquiredAtMs + laterMs)
    expect(execution).toMatchObject({ scope: 's', key: 'k', fence, acquiredAtMs, ...expected })
  })
})
