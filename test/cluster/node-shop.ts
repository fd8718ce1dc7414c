import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { poll } from '#internal/dev/index.ts'
import { checkDelivery, type Delivered } from '#test/support/events/delivery-check.ts'
import { providerSecret } from '#test/support/intake/webhook-calls.ts'
import { openCluster } from './cluster.ts'
import { makeRestrictedNamespace, patience, serviceUrl, waitSeconds } from './node-release.ts'
import { run } from './program.ts'
import { createTenantCalls, entryOf, type TenantCalls } from './tenant-calls.ts'

/** Namespace of the tenant and its callback. */
export const shopNamespace = 'shops'
const tenantName = 'acme'
const arriveMsMax = 60_000

/** Call received by the callback's pod. */
export interface ShopCall {
  /** Value of `webhook-id`. */
  readonly id: string
  readonly timestamp: string
  readonly signature: string
  readonly body: string
}

/** Ready tenant with its callback in a pod. */
export interface Shop {
  readonly tenants: TenantCalls
  /** Webhook URL, through the Service. */
  readonly webhookUrl: string
  /** Returns the text of an entry of one of its Secrets. */
  secret(name: string, entry: string): Promise<string>
  /** Returns the number of calls the callback has received. */
  callCount(): Promise<number>
  /** Sets the response time of the callback. */
  delay(ms: number): Promise<void>
  /** Waits for every event with one of these payload ids; returns all calls after the first `from`. @throws after 60 s */
  received(ids: Iterable<string>, from: number): Promise<readonly ShopCall[]>
}

/** Creates the tenant and its callback if absent, and waits until both are Ready. */
export async function openShop(): Promise<Shop> {
  await makeRestrictedNamespace(shopNamespace)
  await run(
    ['kubectl', 'apply', '-f', '-'],
    objects()
      .map((each) => JSON.stringify(each))
      .join('\n---\n'),
  )
  const tenants = createTenantCalls(await openCluster())
  await tenants.ready(shopNamespace, tenantName, 60_000 * patience)
  const rollout = [
    'rollout',
    'status',
    'deployment/receiver',
    '-n',
    shopNamespace,
    `--timeout=${waitSeconds}s`,
  ]
  await run(['kubectl', ...rollout])
  const calls = async (from: number) =>
    JSON.parse(await askReceiver(`calls?from=${from}`)) as readonly ShopCall[]
  return {
    tenants,
    webhookUrl: `${serviceUrl}/v1/t/${tenantName}/webhooks/generic`,
    secret: async (name, entry) => entryOf(await tenants.secret(shopNamespace, name), entry),
    callCount: async () => (await calls(0)).length,
    delay: async (ms) => void (await askReceiver(`delay?ms=${ms}`)),
    async received(ids, from) {
      const missing = new Set(ids)
      const seen: ShopCall[] = []
      const isAll = async () => {
        for (const call of await calls(from + seen.length)) {
          seen.push(call)
          checkDelivery(deliveredOf(call))
          missing.delete(payloadIdOf(call))
        }
        return missing.size === 0 ? true : undefined
      }
      const found = await poll(isAll, { deadlineMs: arriveMsMax * patience, everyMs: 250 })
      if (found) return seen
      throw new Error(
        `${missing.size} events did not come, such as ${[...missing][0]}; ${seen.length} calls came`,
      )
    },
  }
}

/** Returns a call with the headers that the callback keeps. */
function deliveredOf({ id, timestamp, signature, body }: ShopCall): Delivered {
  const signed = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
  return { headers: new Headers({ 'content-type': 'application/json', ...signed }), body }
}

/** Returns the sender's id in the payload of a call. */
export function payloadIdOf({ body }: ShopCall): string {
  return (JSON.parse(body) as { payload: { id: string } }).payload.id
}

/** Returns the calls without a valid signature by this secret. */
export function unsigned(calls: readonly ShopCall[], secret: string): readonly ShopCall[] {
  const webhook = new Webhook(secret)
  return calls.filter(({ id, timestamp, signature, body }) => {
    const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    try {
      webhook.verify(body, headers)
      return false
    } catch {
      return true
    }
  })
}

/** Calls the receiver through the API server's proxy, which every environment can reach. */
function askReceiver(path: string): Promise<string> {
  return run([
    'kubectl',
    'get',
    '--raw',
    `/api/v1/namespaces/${shopNamespace}/services/receiver:8080/proxy/${path}`,
  ])
}

function objects(): readonly object[] {
  const labels = { app: 'receiver' }
  const metadata = { name: 'receiver', namespace: shopNamespace }
  const script = readFileSync(join(import.meta.dir, 'node/receiver.main.ts'), 'utf8')
  return [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'receiver.ts': script } },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: labels, ports: [{ port: 8080 }] } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: receiverPod } },
    },
    {
      apiVersion: 'v1',
      kind: 'Secret',
      stringData: { signingSecret: providerSecret },
      metadata: {
        name: `${tenantName}-provider`,
        namespace: shopNamespace,
        labels: { 'latchkey.dev/tenant': tenantName },
      },
    },
    tenantObject,
  ]
}

const receiverPod = {
  automountServiceAccountToken: false,
  terminationGracePeriodSeconds: 1,
  securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'receiver',
      image: 'docker.io/oven/bun:1.4.5-slim',
      command: ['bun', '/app/receiver.ts'],
      ports: [{ containerPort: 8080 }],
      readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1 },
      resources: { requests: { cpu: '20m', memory: '64Mi' }, limits: { memory: '512Mi' } },
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      volumeMounts: [{ name: 'app', mountPath: '/app' }],
    },
  ],
  volumes: [{ name: 'app', configMap: { name: 'receiver' } }],
}

const tenantObject = {
  apiVersion: 'latchkey.dev/v1alpha1',
  kind: 'Tenant',
  metadata: { name: tenantName, namespace: shopNamespace },
  spec: {
    slug: tenantName,
    callback: {
      url: `http://receiver.${shopNamespace}.svc.cluster.local:8080/hook`,
      // Range of the Service addresses in the preset.
      allowedCIDRs: ['10.96.0.0/16'],
      // Retries soon, since attempts fail while pods terminate.
      retry: { schedule: ['0s', '1s', '2s', '5s', '5s', '10s', '10s', '30s'] },
    },
    providers: [{ name: 'generic', secretRef: { name: `${tenantName}-provider` } }],
    apiKeys: [{ name: 'default', scopes: ['records', 'webhooks'] }],
  },
}
