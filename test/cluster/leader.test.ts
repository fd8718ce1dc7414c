import { afterEach, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Election, expectOk, type Lease, leases } from '#internal/kube/index.ts'
import { until } from '#test/support/until.ts'
import { type ClusterAccess, createNamespace, openCluster } from './cluster.ts'

let admin: ClusterAccess
let namespace: string
const running: Candidate[] = []

beforeAll(async () => {
  admin = await openCluster()
  namespace = (await createNamespace(admin)).name
})
afterEach(async () => {
  for (const candidate of running.splice(0)) await candidate.end('SIGKILL')
})

interface Candidate {
  readonly pid: number
  readonly lines: { kind: string; fence: number }[]
  end(signal: NodeJS.Signals): Promise<void>
}

/** Starts a candidate as a separate process. */
function start(name: string): Candidate {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'candidate.main.ts'), namespace, name], {
    stdout: 'pipe',
  })
  const lines: Candidate['lines'] = []
  void (async () => {
    let rest = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split('\n')
      rest = parts.pop() ?? ''
      lines.push(...parts.map((line) => JSON.parse(line) as Candidate['lines'][number]))
    }
  })()
  const candidate = {
    pid: child.pid,
    lines,
    end: async (signal: NodeJS.Signals) => {
      child.kill(signal)
      await child.exited
    },
  }
  running.push(candidate)
  return candidate
}

const leads = ({ lines }: Candidate) => lines.at(-1)?.kind === 'leading'
const read = async (name: string): Promise<Lease> =>
  expectOk('reading the lease', await admin.client.get(leases, { namespace, name }))

test('leader election: after the leader is killed, the other candidate leads within 20 s with a higher fence', async () => {
  const both = [start('killed'), start('killed')]
  await until(() => both.some(leads), 20_000)
  const leader = both.find(leads)
  const other = both.find((candidate) => candidate !== leader)
  if (!leader || !other) throw new Error('no candidate leads')
  const before = await read('killed')
  expect(before.spec?.holderIdentity).toStartWith(`pod-${leader.pid}_`)
  expect(before.spec?.renewTime).toMatch(/\.\d{6}Z$/)
  expect(other.lines).toEqual([])
  const killedMs = performance.now()
  await leader.end('SIGKILL')
  await until(() => leads(other), 30_000)
  const tookMs = performance.now() - killedMs
  expect(tookMs).toBeLessThan(20_000)
  expect(other.lines[0]?.fence).toBe((leader.lines[0]?.fence ?? 0) + 1)
  expect((await read('killed')).spec?.leaseTransitions).toBe(other.lines[0]?.fence)
})

test('leader election: a leader that gets SIGTERM releases the lease, and the other candidate leads within 5 s', async () => {
  const first = start('given-back')
  await until(() => leads(first), 20_000)
  const second = start('given-back')
  await until(async () => (await read('given-back')).spec?.holderIdentity?.includes(`${first.pid}`) === true)
  await first.end('SIGTERM')
  expect(first.lines.map(({ kind }) => kind)).toEqual(['leading', 'released'])
  const endedMs = performance.now()
  await until(() => leads(second), 20_000)
  expect(performance.now() - endedMs).toBeLessThan(5000)
})

test('leader election: many concurrent candidates never produce two leaders, and each term’s fence is one higher', async () => {
  const terms: number[] = []
  let leading = 0
  let most = 0
  const elections = Array.from(
    { length: 6 },
    (_, index) =>
      new Election({
        client: admin.client,
        namespace,
        name: 'crowd',
        host: `candidate-${index}`,
        leaseMs: 3000,
        renewMs: 2000,
        retryMs: 200,
        onEvent: () => undefined,
        lead: async ({ fence, signal }) => {
          terms.push(fence)
          leading += 1
          most = Math.max(most, leading)
          // Keeps terms short, so that many candidates lead in turn.
          await until(() => signal.aborted || leading > 1, 300).catch(() => undefined)
          leading -= 1
        },
      }),
  )
  await until(() => terms.length >= 8, 30_000)
  await Promise.all(elections.map((election) => election.stop()))
  expect(most).toBe(1)
  expect(terms).toEqual(terms.map((_, index) => index + 1))
})
