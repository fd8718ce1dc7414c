import { afterAll, beforeAll, expect, test } from 'bun:test'
import { webhookTenantYaml } from '#test/support/webhook-calls.ts'
import {
  type AbuseScene,
  openAbuseScene,
  printProbes,
  recordProbe,
  runProbes,
  webhookProbe,
} from './abuse-probes.ts'

const slugs = ['one', 'two', 'three', 'four', 'five']
const keyOf = (slug: string) => `lk_test_${slug}_0123456789abcdef0123456789abcdef`
let scene: AbuseScene

beforeAll(async () => {
  scene = await openAbuseScene(slugs.map((slug) => webhookTenantYaml(slug, keyOf(slug))).join(''))
}, 60_000)
afterAll(() => scene?.close())

test('signed calls and record calls succeed while nobody attacks', async () => {
  const { url } = scene.api
  const probes = [
    webhookProbe('webhooks of one tenant', { url, slug: 'one' }),
    recordProbe('records', { url, apiKey: keyOf('five') }),
  ]
  await runProbes(probes, 500)
  const undisturbed = await runProbes(probes, 1_000)
  printProbes('nothing', undisturbed, undisturbed)
  for (const { sent, succeeded } of undisturbed) expect(succeeded).toBe(sent)
}, 30_000)
