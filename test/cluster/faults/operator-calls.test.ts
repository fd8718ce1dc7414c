import { expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { ownControlPlane } from '../cluster.ts'
import { useOperatorLab } from '../operator-lab.ts'
import type { OperatorProcess } from '../operator-process.ts'

const plane = ownControlPlane()
const stage = useOperatorLab({
  start: { preload: './test/cluster/faults/full-fetch-pool.preload.ts' },
  strict: false,
})
/** Self-check limit of 24 s, plus polling. */
const deadMsMax = 45_000

/** Returns the failed checks of `/livez`. */
async function failing({ opsUrl }: OperatorProcess): Promise<readonly { name: string; ok: boolean }[]> {
  const response = await fetch(`${opsUrl}/livez`)
  const { checks } = (await response.json()) as { checks: { name: string; ok: boolean }[] }
  return checks.filter(({ ok }) => !ok)
}

test('operator: liveness fails if the process cannot send calls, but not if the API server does not respond', async () => {
  const stuck = stage.operator
  const other = await stage.lab.operator()
  const leads = async () => (await stuck.isLeading()) || undefined
  expect(await poll(leads, { deadlineMs: 30_000 })).toBe(true)
  expect([await stuck.liveness(), await other.liveness()]).toEqual([200, 200])
  const resume = plane.suspend('apiserver')
  try {
    stuck.signal('SIGUSR2')
    const isDead = async () => ((await stuck.liveness()) === 503 ? true : undefined)
    expect(await poll(isDead, { deadlineMs: deadMsMax, everyMs: 500 })).toBe(true)
    expect(await failing(stuck)).toMatchObject([{ name: 'outgoing calls', ok: false }])
    expect(stuck.lines('outgoing-call self-check failed').length).toBeGreaterThan(2)
    // Liveness does not fail in the other process, for which the API server was unreachable equally long.
    expect(await failing(other)).toEqual([])
  } finally {
    resume()
    stuck.signal('SIGKILL')
    await stuck.exited
  }
  stage.operator = other
  expect(await poll(async () => (await other.isLeading()) || undefined, { deadlineMs: 60_000 })).toBe(true)
  expect(await other.liveness()).toBe(200)
}, 180_000)
