import { expect, test } from 'bun:test'
import { readConfig } from '#internal/config/index.ts'
import { CallShares, callsMax } from './call-shares.ts'

test('call shares: all of them are at most half of the least that the settings accept of the runtime', () => {
  const all = Object.values(callsMax).reduce((sum, share) => sum + share, 0)
  expect(all).toBe(64)
  const problemsAt = (calls: number) => {
    const read = readConfig({ BUN_CONFIG_MAX_HTTP_REQUESTS: String(calls) }, { process: 'operator' })
    return read.kind === 'ok' ? [] : read.problems.filter((problem) => problem.startsWith('BUN_CONFIG'))
  }
  expect(problemsAt(2 * all)).toEqual([])
  expect(problemsAt(2 * all - 1)).toEqual([expect.stringContaining('from 128 to 65535')])
})

test('call shares: a share that is full keeps no other waiting', async () => {
  const shares = new CallShares()
  const taken = await Promise.all(
    Array.from({ length: callsMax.call }, () => shares.take('call', 1_000, undefined)),
  )
  expect(await shares.take('call', 10, undefined)).toBeUndefined()
  expect(await shares.take('lease', 10, undefined)).toBeDefined()
  for (const release of taken) release?.()
  expect(await shares.take('call', 10, undefined)).toBeDefined()
})
