import { beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import {
  bringRelease,
  releaseNamespace,
  removeRelease,
  stepMsMax,
  tryRelease,
  waitSeconds,
} from './node-release.ts'
import { openShop, type Shop, shopNamespace } from './node-shop.ts'
import { run, runProgram } from './program.ts'

const kept = genericBody()
let shop: Shop

beforeAll(async () => {
  await bringRelease()
  shop = await openShop()
  const from = await shop.callCount()
  expect(await send()).toBe('200 {"ok":true}')
  await shop.received([(JSON.parse(kept) as { id: string }).id], from)
  // Helm keeps the Job of a failed hook, also on uninstall.
  const owner = await tryRelease({
    migration: { existingSecret: 'absent', retries: 0, waitSeconds: 0, deadlineSeconds: 60 },
  })
  expect(owner.err).toContain('pre-upgrade hooks failed')
  expect(await names(releaseNamespace, 'jobs')).toContain('job.batch/latchkey-migrate')
  await removeRelease()
}, stepMsMax)

describe('uninstall', () => {
  test(
    'uninstall: keeps the CRD, the Tenants (without Latchkey’s finalizer), the key ring and the volumes',
    async () => {
      // Garbage collection removes the Job of the failed upgrade after its owner, the Deployment.
      const collected = await poll(
        async () => ((await names(releaseNamespace, 'jobs')).length === 0 ? true : undefined),
        { deadlineMs: 30_000, everyMs: 250 },
      )
      expect(collected).toBe(true)
      const left = await names(releaseNamespace, 'all,secrets,pvc,roles,rolebindings,leases,configmaps')
      const ours = left.filter((name) => !/\/(kube-root-ca\.crt|default|.*-step|back)$/.test(name))
      expect(ours.toSorted()).toEqual([
        'lease.coordination.k8s.io/latchkey-operator',
        'persistentvolumeclaim/data-latchkey-postgres-0',
        'persistentvolumeclaim/data-latchkey-redis-0',
        'secret/latchkey-key-ring',
      ])
      expect((await run(['kubectl', 'get', 'crd', '-o', 'name'])).split('\n')).toContain(
        'customresourcedefinition.apiextensions.k8s.io/tenants.latchkey.dev',
      )
      const { metadata } = await shop.tenants.tenant(shopNamespace, 'acme')
      expect([metadata.finalizers ?? [], metadata.deletionTimestamp]).toEqual([[], undefined])
      expect(await names(shopNamespace, 'secrets')).toEqual(
        expect.arrayContaining(['secret/acme-callback', 'secret/acme-key-default', 'secret/acme-provider']),
      )
      const roles = await run(['kubectl', 'get', 'clusterroles,clusterrolebindings', '-o', 'name'])
      expect(roles.split('\n').filter((name) => name.includes('latchkey'))).toEqual([])
    },
    stepMsMax,
  )

  test(
    'uninstall: a namespace with Tenants can be deleted afterwards',
    async () => {
      const namespace = `gone-${crypto.randomUUID().slice(0, 8)}`
      await run(['kubectl', 'create', 'namespace', namespace])
      const tenant = {
        apiVersion: 'latchkey.dev/v1alpha1',
        kind: 'Tenant',
        metadata: { name: 'late', namespace },
      }
      const spec = { slug: 'late', callback: { url: 'https://hooks.example/' } }
      await run(['kubectl', 'apply', '-f', '-'], JSON.stringify({ ...tenant, spec }))
      const { exitCode, err } = await runProgram([
        'kubectl',
        'delete',
        'namespace',
        namespace,
        `--timeout=${waitSeconds}s`,
      ])
      expect([exitCode, err]).toEqual([0, ''])
    },
    stepMsMax,
  )

  test(
    'uninstall: the next release takes over tenants, keys and data',
    async () => {
      const key = await shop.secret('acme-key-default', 'apiKey')
      await bringRelease()
      shop = await openShop()
      expect(await send()).toBe('200 {"ok":true,"cached":true}')
      expect(await shop.secret('acme-key-default', 'apiKey')).toBe(key)
    },
    stepMsMax,
  )
})

async function names(namespace: string, kinds: string): Promise<readonly string[]> {
  const out = await run(['kubectl', 'get', kinds, '-n', namespace, '-o', 'name'])
  return out.split('\n').filter((line) => line !== '')
}

/** Sends the same event each time; returns status and body of the answer. */
async function send(): Promise<string> {
  const response = await fetch(shop.webhookUrl, { method: 'POST', ...signGeneric(kept) })
  return `${response.status} ${await response.text()}`
}
