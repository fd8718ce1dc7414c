import { expect, test } from 'bun:test'
import { tenantIdFromBytes } from '#internal/base/index.ts'
import { demoHeader, timeOf } from '#internal/dev/index.ts'
import type { RefusedNote } from '#internal/intake/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { createRefusedLines, refusedLinesPerSecondMax } from './welcome.ts'

const refused: RefusedNote = {
  tenantId: tenantIdFromBytes(new Uint8Array(16)),
  provider: 'parcelwise' as ProviderName,
  cause: 'signature_mismatch',
  headers: new Headers(),
}

test('refused lines: print provider, cause and tenant of at most 10 refused calls per second, and omit calls of the demo', () => {
  const said: string[] = []
  let nowMs = 1_795_000_000_000
  const note = createRefusedLines({
    say: (line: string) => said.push(line),
    clock: { now: () => nowMs },
    findTenant: () => ({ slug: 'parcels', name: 'p' }),
  })
  note({ ...refused, headers: new Headers({ [demoHeader]: 'taken' }) })
  expect(said).toEqual([])
  for (let count = 0; count < 15; count += 1) note(refused)
  expect(said).toHaveLength(refusedLinesPerSecondMax)
  expect(said[0]).toBe(`${timeOf(nowMs)} parcelwise refused: signature_mismatch → parcels`)
  nowMs += 1_000
  note({ ...refused, cause: 'secrets_missing' })
  expect(said.slice(refusedLinesPerSecondMax)).toEqual([
    '… and 5 more in that second',
    `${timeOf(nowMs)} parcelwise refused: secrets_missing → parcels`,
  ])
})
