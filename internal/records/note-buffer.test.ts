import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { testSeed } from '#test/support/seed.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { describeLock, factsOf, joinFacts, type LockFacts, type LockNote } from './lock-history.ts'
import { NoteBuffer } from './note-buffer.ts'

const roomy = 1_000_000
const [hog, small, other] = [someTenantId(), someTenantId(), someTenantId()]

function pushTo(buffer: NoteBuffer, tenantId: TenantId, fence: number, key = `k${fence}`): void {
  buffer.push({ tenantId, scope: 's', key }, { kind: 'acquired', fence, heldMs: 1_000 })
}

function fencesOf(buffer: NoteBuffer, tenantId: TenantId): number[] {
  return buffer
    .take(Number.MAX_SAFE_INTEGER)
    .filter(({ address }) => address.tenantId === tenantId)
    .map(({ note }) => note.fence)
}

describe('note buffer', () => {
  test('note buffer: returns its notes in the order in which they were added', () => {
    const buffer = new NoteBuffer({ notesMax: 8, bytesMax: roomy })
    const notes: LockNote[] = [
      { kind: 'acquired', fence: 1_790_000_000_000_001, heldMs: 60_000 },
      { kind: 'extended', fence: 2, atMs: 1_790_000_000_000, heldMs: 900_000 },
      { kind: 'completed', fence: 3, atMs: 5, status: 599 },
      { kind: 'released', fence: 4, atMs: 6 },
      { kind: 'taken_over', fence: Number.MAX_SAFE_INTEGER, atMs: 7 },
    ]
    const address = { tenantId: hog, scope: 'zahlung ü', key: 'k' }
    // The second run reuses the elements of the buffer that the first run freed.
    for (let times = 0; times < 2; times += 1) {
      for (const note of notes) buffer.push(address, note)
      expect(buffer.take(100)).toEqual(notes.map((note) => ({ address, note })))
      expect(buffer.size).toBe(0)
    }
  })

  test('note buffer: drops the oldest notes when it is full, and counts each dropped note once', () => {
    const buffer = new NoteBuffer({ notesMax: 3, bytesMax: roomy })
    for (let fence = 1; fence <= 8; fence += 1) pushTo(buffer, hog, fence)
    expect([buffer.size, buffer.takeDropped(), buffer.takeDropped()]).toEqual([3, 5, 0])
    expect(fencesOf(buffer, hog)).toEqual([6, 7, 8])
  })

  test('note buffer: is also limited by bytes, and drops as many notes as a long new note displaces', () => {
    const buffer = new NoteBuffer({ notesMax: 100, bytesMax: 2_000 })
    for (let fence = 1; fence <= 9; fence += 1) pushTo(buffer, hog, fence)
    expect(buffer.takeDropped()).toBe(0)
    pushTo(buffer, hog, 10, 'x'.repeat(255))
    expect(buffer.takeDropped()).toBe(3)
    expect(fencesOf(buffer, hog)).toEqual([4, 5, 6, 7, 8, 9, 10])
  })

  test('note buffer: keeps the notes of a tenant with few notes when another tenant has very many', () => {
    const buffer = new NoteBuffer({ notesMax: 1_000, bytesMax: roomy })
    for (let fence = 1; fence <= 5_000; fence += 1) {
      pushTo(buffer, hog, fence)
      if (fence % 50 === 0) pushTo(buffer, small, fence)
    }
    for (let fence = 1; fence <= 300; fence += 1) pushTo(buffer, other, fence)
    expect(buffer.takeDropped()).toBe(5_000 + 100 + 300 - 1_000)
    const held = Map.groupBy(buffer.take(1_000), ({ address }) => address.tenantId)
    expect([hog, small, other].map((id) => held.get(id)?.length)).toEqual([600, 100, 300])
  })

  test('note buffer: among a thousand tenants, drops notes of the tenant with most notes', () => {
    const buffer = new NoteBuffer({ notesMax: 4_000, bytesMax: roomy })
    const many = Array.from({ length: 1_000 }, () => someTenantId())
    for (let fence = 1; fence <= 3_000; fence += 1) pushTo(buffer, hog, fence)
    for (const id of many) pushTo(buffer, id, 1)
    for (const id of many) pushTo(buffer, id, 2)
    const held = Map.groupBy(buffer.take(4_000), ({ address }) => address.tenantId)
    const lost = many.filter((id) => held.get(id)?.length !== 2).length
    // The buffer examines four other tenants per drop, so it drops some notes before it finds the tenant with most notes.
    expect(lost).toBeLessThanOrEqual(250)
    expect(held.get(hog)?.length).toBeLessThanOrEqual(2_250)
  })

  test('note buffer: takes equally many notes of each tenant, and starts with another tenant each time', () => {
    const buffer = new NoteBuffer({ notesMax: 1_000, bytesMax: roomy })
    for (let fence = 1; fence <= 500; fence += 1) pushTo(buffer, hog, fence)
    for (const id of [small, other]) for (let fence = 1; fence <= 20; fence += 1) pushTo(buffer, id, fence)
    const first = Map.groupBy(buffer.take(30), ({ address }) => address.tenantId)
    expect([hog, small, other].map((id) => first.get(id)?.length)).toEqual([10, 10, 10])
    const tenants = new Set([1, 2, 3].flatMap(() => buffer.take(1).map(({ address }) => address.tenantId)))
    expect(tenants.size).toBe(3)
  })

  test('note buffer: after any operations, it has counted all losses and kept its limits and the order of each tenant’s notes', () => {
    const ids = [hog, small, other]
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ tenant: fc.nat({ max: 2 }), length: fc.integer({ min: 1, max: 255 }) }),
      },
      { weight: 1, arbitrary: fc.record({ take: fc.nat({ max: 12 }) }) },
    )
    const property = fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const buffer = new NoteBuffer({ notesMax: 16, bytesMax: 6_000 })
      const last = new Map<TenantId, number>()
      let [pushed, taken, dropped, fence] = [0, 0, 0, 0]
      for (const each of steps) {
        if ('take' in each) {
          for (const { address, note } of buffer.take(each.take)) {
            expect(note.fence).toBeGreaterThan(last.get(address.tenantId) ?? 0)
            last.set(address.tenantId, note.fence)
            taken += 1
          }
        } else {
          pushTo(buffer, ids[each.tenant] ?? hog, (fence += 1), 'x'.repeat(each.length))
          pushed += 1
        }
        dropped += buffer.takeDropped()
        expect(buffer.size).toBeLessThanOrEqual(16)
        expect(pushed).toBe(taken + dropped + buffer.size)
      }
    })
    fc.assert(property, { numRuns: 300, seed: testSeed() })
  })
})

const address = { tenantId: someTenantId(), scope: 's', key: 'k' }
const acquiredAtMs = Date.parse('2026-11-21T10:00:00Z')
const fence = acquiredAtMs * 1000 + 123

const atMs = fc.integer({ min: acquiredAtMs, max: acquiredAtMs + 5 })
const heldMs = fc.integer({ min: 1, max: 4 }).map((seconds) => seconds * 1000)
const anyNote: fc.Arbitrary<LockNote> = fc.oneof(
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

function joinAll(facts: readonly LockFacts[]): LockFacts {
  return facts.reduce(joinFacts)
}

describe('joinFacts', () => {
  test('joinFacts: the result is independent of order, grouping and repetition', () => {
    const property = fc.property(anyFacts, anyFacts, anyFacts, (a, b, c) => {
      expect(joinFacts(a, b)).toEqual(joinFacts(b, a))
      expect(joinFacts(joinFacts(a, b), c)).toEqual(joinFacts(a, joinFacts(b, c)))
      expect(joinFacts(a, a)).toEqual(a)
    })
    fc.assert(property, { numRuns: 2_000, seed: testSeed() })
  })

  const extended = (at: number, held: number): LockNote => ({
    kind: 'extended',
    fence,
    atMs: acquiredAtMs + at,
    heldMs: held,
  })
  const acquired: LockNote = { kind: 'acquired', fence, heldMs: 60_000 }
  test.each<[string, LockNote[], Partial<LockFacts>]>([
    [
      'a later request for a shorter duration wins',
      [acquired, extended(10, 1_000)],
      { expiresAtMs: acquiredAtMs + 1_010, extendedAtMs: acquiredAtMs + 10 },
    ],
    [
      'an earlier request for a longer duration is ignored',
      [extended(20, 500), extended(10, 90_000), acquired],
      { expiresAtMs: acquiredAtMs + 520, extendedAtMs: acquiredAtMs + 20 },
    ],
    [
      'the first of two ends wins, with its status',
      [
        { kind: 'completed', fence, atMs: acquiredAtMs + 9, status: 201 },
        { kind: 'taken_over', fence, atMs: acquiredAtMs + 70_000 },
        { kind: 'completed', fence, atMs: acquiredAtMs + 80_000, status: 500 },
      ],
      { ending: 'completed', endedAtMs: acquiredAtMs + 9, status: 201 },
    ],
    [
      'an end without an acquisition leaves the duration unknown',
      [{ kind: 'released', fence, atMs: acquiredAtMs + 9 }],
      { ending: 'released', expiresAtMs: null, status: null },
    ],
  ])('joinFacts: %s', (_name, notes, expected) => {
    expect(joinAll(notes.map((note) => factsOf(address, note)))).toMatchObject(expected)
  })
})

describe('describeLock', () => {
  const held: LockNote = { kind: 'acquired', fence, heldMs: 1_000 }
  test.each<[string, LockNote[], number, object]>([
    [
      'is running while its lock is held',
      [held],
      999,
      { state: 'running', durationMs: null, endedAtMs: null },
    ],
    [
      'is expired after its duration',
      [held],
      1_000,
      { state: 'expired', durationMs: null, expiresAtMs: acquiredAtMs + 1_000 },
    ],
    [
      'is completed even by a late save',
      [held, { kind: 'completed', fence, atMs: acquiredAtMs + 2_500, status: 204 }],
      9_000,
      { state: 'completed', durationMs: 2_500, status: 204 },
    ],
    [
      'has a duration of at least 0 if the clock went back',
      [{ kind: 'taken_over', fence, atMs: acquiredAtMs - 50 }],
      0,
      { state: 'taken_over', durationMs: 0 },
    ],
  ])('describeLock: a lock %s', (_name, notes, laterMs, expected) => {
    const facts = joinAll(notes.map((note) => factsOf(address, note)))
    const entry = describeLock(facts, acquiredAtMs + laterMs)
    expect(entry).toMatchObject({ scope: 's', key: 'k', fence, acquiredAtMs, ...expected })
  })
})
