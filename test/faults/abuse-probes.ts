import { openTenants } from '#test/support/api.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { type ApiProcess, readiness, startApiProcess } from '#test/support/processes/api-process.ts'
import { testStores } from '#test/support/stores.ts'

/** API process with its tenants. */
export interface AbuseScene {
  readonly api: ApiProcess
  close(): Promise<void>
}

/** Key ring of the tests' tenants. */
const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`

/** Starts the shipped API process on a new database (about 2 s). `manifests` is YAML of Tenants and Secrets. */
export async function openAbuseScene(
  manifests: string,
  apiEnv: Readonly<Record<string, string>> = {},
): Promise<AbuseScene> {
  const database = await createMigratedDatabase()
  const { redisUrl } = await testStores()
  const tenants = await openTenants(database.url, redisUrl)
  await tenants.apply(manifests)
  await tenants.close()
  const api = await startApiProcess({
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_KEY_RING: keyRing,
    ...apiEnv,
  })
  if ((await readiness(api.opsUrl, 200)) !== 200) throw new Error(api.output())
  return {
    api,
    async close() {
      api.signal('SIGKILL')
      await api.exited
      await database.drop()
    },
  }
}

/** Legitimate calls of one kind, sent during an attack. */
export interface Probe {
  readonly name: string
  /** Sends one call; returns its status, or 0 if the connection broke. Must not throw. */
  call(): Promise<number>
}

/** Results of one probe in one measurement. */
export interface ProbeResult {
  readonly name: string
  readonly sent: number
  /** Number of calls answered 200 or 202. */
  readonly succeeded: number
  /** Number of calls by status; 0 means that the connection broke. */
  readonly statuses: ReadonlyMap<number, number>
  readonly p99Ms: number
}

const sendersEach = 4
const restMs = 20
const callMsMax = 10_000

/** Runs all probes concurrently for some time, four senders each, and waits for every answer. */
export function runProbes(probes: readonly Probe[], durationMs: number): Promise<ProbeResult[]> {
  const endsAtMs = performance.now() + durationMs
  return Promise.all(
    probes.map(async ({ name, call }) => {
      const statuses = new Map<number, number>()
      const latencies: number[] = []
      const oneSender = async () => {
        while (performance.now() < endsAtMs) {
          const startedMs = performance.now()
          const status = await call()
          latencies.push(performance.now() - startedMs)
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          await Bun.sleep(restMs)
        }
      }
      await Promise.all(Array.from({ length: sendersEach }, oneSender))
      latencies.sort((a, b) => a - b)
      const succeeded = (statuses.get(200) ?? 0) + (statuses.get(202) ?? 0)
      const p99Ms = latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * 0.99))] ?? 0
      return { name, sent: latencies.length, succeeded, statuses, p99Ms }
    }),
  )
}

/** Sends one request with a body; returns its status, or 0 without an answer within 10 s. */
export async function statusOf(url: string, init: RequestInit): Promise<number> {
  try {
    const answer = await fetch(url, { method: 'POST', ...init, signal: AbortSignal.timeout(callMsMax) })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}

/** Probe of signed calls of provider `generic` to a tenant's public URL, with bodies of about 1 KB or of `bytes`. */
export function webhookProbe(
  name: string,
  {
    url,
    slug,
    headers = {},
    bytes = 1_000,
  }: { url: string; slug: string; headers?: Record<string, string>; bytes?: number },
): Probe {
  const fill = { note: 'x'.repeat(bytes - 100) }
  return {
    name,
    call: () => {
      const { body, headers: signed } = signGeneric(genericBody(crypto.randomUUID(), fill))
      return statusOf(`${url}/v1/t/${slug}/webhooks/generic`, { body, headers: { ...signed, ...headers } })
    },
  }
}

/** Probe of calls that lock a new key. */
export function recordProbe(name: string, { url, apiKey }: { url: string; apiKey: string }): Probe {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${apiKey}` }
  return {
    name,
    call: () => {
      const body = JSON.stringify({ scope: 'abuse', key: crypto.randomUUID() })
      return statusOf(`${url}/v1/record`, { body, headers })
    },
  }
}

/** Prints one line per probe: successes during an attack, and p99 with and without it. */
export function printProbes(
  attack: string,
  undisturbed: readonly ProbeResult[],
  attacked: readonly ProbeResult[],
): void {
  for (const { name, sent, succeeded, statuses, p99Ms } of attacked) {
    const before = undisturbed.find((each) => each.name === name)?.p99Ms ?? Number.NaN
    const others = [...statuses].filter(([status]) => status !== 200 && status !== 202)
    const rest = others.map(([status, count]) => `, ${count} answered ${status === 0 ? 'nothing' : status}`)
    const share = ((100 * succeeded) / sent).toFixed(1)
    const times = `p99 ${before.toFixed(1)} ms undisturbed, ${p99Ms.toFixed(1)} ms attacked (${(p99Ms / before).toFixed(1)} x)`
    console.log(
      `${attack}: ${name}: sent ${sent}, succeeded ${succeeded} (${share} %)${rest.join('')}; ${times}`,
    )
  }
}
