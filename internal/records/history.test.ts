import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { defineScript } from '#internal/storage/index.ts'
import { simulateCallers } from '#test/support/record-callers.ts'
import { findViolations, type HistoryCall } from '#test/support/record-history.ts'
import { movableClock, openRecordLab, type RecordLab } from '#test/support/record-lab.ts'
import { testSeed } from '#test/support/seed.ts'
import { defineRecordScripts, type RecordScripts } from './scripts.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

/** Maximum runs: Redis decides the interleaving of callers, so a situation or a fault can need several runs to appear. */
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

describe('concurrent callers', () => {
  // The interleaving of callers can differ with the same seed, but the calls of each caller do not.
  const first = testSeed()

  test.each([0, 1, 2])(
    'records: concurrent callers see no unannounced second run, no two owners and no two results (%d)',
    async (nth) => {
      const seed = first + nth
      const history = await simulateCallers(lab, { ...size, seed })
      expect({ seed, violations: findViolations(history) }).toEqual({ seed, violations: [] })
    },
    10_000,
  )

  test('history check: simulated callers meet every situation that the check covers', async () => {
    const met = new Set<string>()
    for (let seed = 1; seed <= seedsMax && !situations.every((one) => met.has(one)); seed += 1) {
      const history = await simulateCallers(lab, { ...size, seed })
      for (const call of history.calls) met.add(situationOf(call))
    }
    expect([...met]).toEqual(expect.arrayContaining(situations))
  }, 10_000)
})

const shebang = /^#!lua(?: flags=(\S+))?\n/

/** Returns the scripts with a fault injected into one of them. */
function withFault(name: keyof RecordScripts, from: string, to: string): RecordScripts {
  const scripts = defineRecordScripts(movableClock)
  const { source } = scripts[name]
  if (source.split(from).length !== 2) throw new Error(`not exactly once in ${name}: ${from}`)
  const broken = source.replace(shebang, '').replace(from, () => to)
  return { ...scripts, [name]: defineScript(name, shebang.exec(source)?.[1] ?? '', [broken]) }
}

const faults: readonly (readonly [
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
    "if token ~= '' and token ~= lock.token then return {'lost'} end",
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
    "redis.call('SET', KEYS[3], string.sub(entry, 1, json_at - 1) .. record) return {'saved'}",
    'two results',
  ],
  [
    'a check that ignores a saved record',
    'acquire',
    'if entry and string.byte(entry) == 82 then',
    "if entry and string.byte(entry) == 82 then redis.call('DEL', KEYS[3]) entry = false end if false then",
    'finished',
  ],
]

describe('history check', () => {
  test.each(faults)(
    'history check: finds the fault of %s',
    async (_fault, script, from, to, found) => {
      const broken = await openRecordLab({ scripts: withFault(script, from, to) })
      try {
        let kinds = new Set<string>()
        for (let seed = 1; seed <= seedsMax && !kinds.has(found); seed += 1) {
          const history = await simulateCallers(broken, { ...size, seed })
          kinds = new Set(findViolations(history).map((line) => line.split(':')[0] ?? ''))
        }
        expect([...kinds]).toContain(found)
      } finally {
        await broken.close()
      }
    },
    10_000,
  )
})
