import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { ownControlPlane } from '../cluster.ts'
import { type OperatorLab, type OperatorProcess, openOperatorLab } from '../operator-lab.ts'

let lab: OperatorLab
let operator: OperatorProcess
let shops: string
beforeAll(async () => {
  lab = await openOperatorLab()
  operator = await lab.operator()
  shops = await lab.namespace()
}, 60_000)
afterAll(async () => {
  await lab.close()
}, 60_000)

const isLeading = async () => (await operator.metric('leader_election_master_status')) === 1

test.each(['apiserver', 'etcd'] as const)(
  'after a restart of %s the operator goes on by itself',
  async (part) => {
    await lab.create(shops, `before-${part}`)
    await lab.ready(shops, `before-${part}`)
    await ownControlPlane().cycle(part)
    const leads = await poll(async () => (await isLeading()) || undefined, { deadlineMs: 60_000 })
    expect(leads).toBe(true)
    await lab.create(shops, `after-${part}`)
    await lab.ready(shops, `after-${part}`)
    expect((await fetch(`${operator.opsUrl}/livez`)).status).toBe(200)
  },
  120_000,
)

test('a watch that has missed what was compacted lists anew', async () => {
  await ownControlPlane().compact()
  await lab.create(shops, 'compacted')
  await lab.ready(shops, 'compacted')
})
