import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { defineScript } from '#internal/storage/index.ts'
import { type RecordDurability, recordDurabilities } from '#internal/tenants/index.ts'
import { usualCases } from '#test/support/nightly.ts'
import { simulateCallers } from '#test/support/records/record-callers.ts'
import { findViolations, type HistoryCall } from '#test/support/records/record-history.ts'
import { movableClock, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { createTenantIn, MovingProcesses, viewOf } from '#test/support/records/record-moves.ts'
import { acquireInput } from '#test/support/records/record-steps.ts'
import { testSeed } from '#test/support/seed.ts'
import { defineRecordScripts, type RecordScripts } from './scripts.ts'
import type { RecordStore } from './store.ts'

const labs = {} as Record<RecordDurability, RecordLab>
beforeAll(async () => {
  for (const durability of recordDurabilities) labs[durability] = await openRecordLab({ durability })
}, 30_000)
afterAll(() => Promise.all(recordDurabilities.map((durability) => labs[durability].close())))

/** Maximum runs: the store decides the interleaving of callers, so a situation or a fault can need several runs to appear. */
const seedsMax = 30
const size = { callers: 24, rounds: 12, keys: ['a', 'b', 'c', 'd'] }

/** Situation of a call, by its name in `situations`. */
function situationOf(call: HistoryCall): string {
  if (call.do === 'acquire' && call.outcome.kind === 'locked' && call.outcome.takenOver) return 'take-over'
  if (call.do === 'acquire' || call.do === 'fetch') return `${call.do} ${call.outcome.kind}`
  if (call.do === 'save' || call.do === 'extend') return `${call.do} ${call.outcome}`
  return `${call.do} ${call.existed}`
}

const situations = [
  'acquire locked',
  'take-over',
  'acquire hit',
  'acquire busy',
  'fetch hit',
  'save saved',
  'save lost',
  'save exists',
  'extend extended',
  'extend lost',
  'release true',
  'release false',
  'remove true',
  'remove false',
]

/** Returns the store of one of two processes, in turn. */
function twoProcesses(lab: RecordLab): () => RecordStore {
  const stores = [lab.store, lab.createStores()[lab.durability]]
  let calls = 0
  return () => {
    calls += 1
    return stores[calls % stores.length] ?? lab.store
  }
}

describe.each(recordDurabilities)('concurrent callers of records in %s', (durability) => {
  // With the same seed, each caller makes the same calls, but the calls of different callers can interleave differently.
  const first = testSeed()

  const callers = [
    ['a process', 0, false],
    ['two processes', 2, true],
    ['a process', 1, false],
    ['two processes', 3, true],
    ['two processes', 4, true],
  ] as const
  test.each(usualCases(callers, 2))(
    'records: concurrent callers in %s never see an unannounced second run, two owners or two results (%d)',
    async (_of, nth, isTwo) => {
      const seed = first + nth
      const lab = labs[durability]
      const history = await simulateCallers(lab, {
        ...size,
        seed,
        ...(isTwo && { storeOf: twoProcesses(lab) }),
      })
      expect({ seed, violations: findViolations(history) }).toEqual({ seed, violations: [] })
    },
    20_000,
  )

  test('history check: simulated callers produce every situation that the check covers', async () => {
    const met = new Set<string>()
    for (let seed = 1; seed <= seedsMax && !situations.every((one) => met.has(one)); seed += 1) {
      const history = await simulateCallers(labs[durability], { ...size, seed })
      for (const call of history.calls) met.add(situationOf(call))
    }
    expect([...met]).toEqual(expect.arrayContaining(situations))
  }, 20_000)
})

test.each(recordDurabilities)(
  'fence: processes that start at the same time with a new tenant assign different fences, in %s',
  async (durability) => {
    const lab = labs[durability]
    const stores = Array.from({ length: 4 }, () => lab.createStores()[durability])
    for (let round = 0; round < 40; round += 1) {
      const tenantId = await lab.createTenant()
      const outcomes = await Promise.all(
        stores.flatMap((store, process) =>
          Array.from({ length: 8 }, (_, nth) => {
            const key = `${process} ${nth}`
            return store.acquire(acquireInput(tenantId, { key, lockToken: key }))
          }),
        ),
      )
      const fences = new Set(outcomes.map((outcome) => outcome.kind === 'locked' && outcome.fence))
      expect(fences.size).toBe(outcomes.length)
    }
  },
)

const shebang = /^#!lua(?: flags=(\S+))?\n/

/** Returns the scripts with a fault injected into one of them. */
function withFault(name: keyof RecordScripts, from: string, to: string): RecordScripts {
  const scripts = defineRecordScripts(movableClock)
  const { source } = scripts[name]
  if (source.split(from).length !== 2) throw new Error(`not exactly once in ${name}: ${from}`)
  const broken = source.replace(shebang, '').replace(from, () => to)
  return { ...scripts, [name]: defineScript(name, shebang.exec(source)?.[1] ?? '', [broken]) }
}

const scriptFaults: readonly (readonly [
  fault: string,
  script: keyof RecordScripts,
  from: string,
  to: string,
  found: string,
])[] = [
  [
    'a lock that a second owner can acquire',
    'acquire',
    'if before.lock_until > now_ms then',
    'if false then',
    'two owners',
  ],
  [
    'an unannounced takeover',
    'acquire',
    "lock.taken_over, bytes_before = '1', before.bytes",
    "lock.taken_over, bytes_before = '0', before.bytes",
    'unannounced',
  ],
  [
    'a release that forgets a takeover',
    'remove',
    "if lock.taken_over == '1' then",
    'if false then',
    'unannounced',
  ],
  [
    'an accepted save by a late holder',
    'save',
    "if token ~= '' and token ~= lock.token then return {is_old(meter.e, place) and 'moved' or 'lost'} end",
    '',
    'late',
  ],
  [
    'a fence that decreases with the clock',
    'acquire',
    'meter.f = math.max(meter.f + 1, micros)',
    'meter.f = micros',
    'fence',
  ],
  [
    'a second result that replaces the first',
    'save',
    "return {'exists'}",
    "redis.call('SET', key, string.sub(entry, 1, json_at - 1) .. record) return {'saved'}",
    'two results',
  ],
  [
    'a check that ignores a saved record',
    'acquire',
    'if entry and string.byte(entry) == 82 then',
    "if entry and string.byte(entry) == 82 then redis.call('DEL', KEYS[at]) entry = false end if false then",
    'finished',
  ],
]

const sqlFaults: readonly (readonly [fault: string, from: string, to: string, found: string])[] = [
  [
    'a lock that a second owner can acquire',
    'ELSIF before.held_until > now_ms THEN',
    'ELSIF false THEN',
    'two owners',
  ],
  [
    'an unannounced takeover',
    'entry.taken_over := before.id IS NOT NULL OR s_ended_earlier[step] = 1;',
    'entry.taken_over := false;',
    'unannounced',
  ],
  ['a release that forgets a takeover', 'IF before.taken_over THEN', 'IF false THEN', 'unannounced'],
  [
    'an accepted save by a late holder',
    "ELSIF s_token[step] <> '' AND s_token[step] IS DISTINCT FROM before.token THEN",
    'ELSIF false THEN',
    'late',
  ],
  ['a fence that decreases with the clock', 'greatest(last + 1, micros)', 'micros', 'fence'],
  [
    'a second result that replaces the first',
    "WHEN s_kind[step] = 'save' THEN\n      IF before.record IS NOT NULL THEN",
    "WHEN s_kind[step] = 'save' THEN\n      IF false THEN",
    'two results',
  ],
  [
    'a check that ignores a saved record',
    'ELSIF before.record IS NOT NULL THEN\n        result.kind',
    'ELSIF false THEN\n        result.kind',
    'finished',
  ],
  ['transactions that do not lock their keys', 'PERFORM pg_advisory_xact_lock(', 'PERFORM (', 'two owners'],
  [
    'transactions that give the same fences',
    '(greatest(last + 1, micros) - stripe + 15) / 16 * 16 + stripe',
    'greatest(last + 1, micros)',
    'fence',
  ],
]

const moveFaults: readonly (readonly [
  fault: string,
  fromRedis: readonly [from: string, to: string],
  fromPostgres: readonly [from: string, to: string],
  found: string,
])[] = [
  [
    'a lock that is over and keeps its holder when it is taken over in the other store',
    ["if refusal[1] == 'elsewhere' and ended_fence then", 'if false then'],
    [
      "          IF before.token <> '' THEN\n            entry := mark",
      '          IF false THEN\n            entry := mark',
    ],
    'late',
  ],
  [
    'a takeover in the other store without its announcement',
    ["if ended_elsewhere == 't' then", 'if false then'],
    [' OR s_ended_earlier[step] = 1;', ';'],
    'unannounced',
  ],
]

/** Returns the store of processes that learn one after another of the moves of a new tenant. */
async function movingProcesses(lab: RecordLab) {
  const tenantId = await createTenantIn(lab, 'postgres')
  const moving = new MovingProcesses(lab, tenantId, await viewOf(lab, tenantId))
  return { tenantId, storeOf: () => moving.storeOfNextCall(), end: () => moving.moving }
}

/** Runs callers until the check finds a kind of violation, and returns the kinds that it found last. */
async function findKind(broken: RecordLab, found: string, moves = false): Promise<string[]> {
  let kinds = new Set<string>()
  for (let seed = 1; seed <= seedsMax && !kinds.has(found); seed += 1) {
    const scene = moves ? await movingProcesses(broken) : { storeOf: twoProcesses(broken) }
    const history = await simulateCallers(broken, { ...size, seed, ...scene })
    if ('end' in scene) await scene.end()
    kinds = new Set(findViolations(history).map((line) => line.split(':')[0] ?? ''))
  }
  return [...kinds]
}

describe('history check', () => {
  test.each(usualCases(scriptFaults, 2))(
    'history check: detects the fault "%s" in Redis',
    async (_fault, script, from, to, found) => {
      const broken = await openRecordLab({ scripts: withFault(script, from, to) })
      try {
        expect(await findKind(broken, found)).toContain(found)
      } finally {
        await broken.close()
      }
    },
    20_000,
  )

  test.each(usualCases(moveFaults, 0))(
    'history check: detects the fault "%s" during a move',
    async (_fault, fromRedis, fromPostgres, found) => {
      for (const options of [
        { scripts: withFault('acquire', ...fromRedis) },
        { sqlFaults: [fromPostgres] },
      ]) {
        const broken = await openRecordLab(options)
        try {
          expect(await findKind(broken, found, true)).toContain(found)
        } finally {
          await broken.close()
        }
      }
    },
    40_000,
  )

  test.each(usualCases(sqlFaults, 2))(
    'history check: detects the fault "%s" in Postgres',
    async (_fault, from, to, found) => {
      const broken = await openRecordLab({ durability: 'postgres', sqlFaults: [[from, to]] })
      try {
        expect(await findKind(broken, found)).toContain(found)
      } finally {
        await broken.close()
      }
    },
    20_000,
  )
})
