import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { type AttackOptions, startAttack, webhookHead } from './abuse-connections.ts'
import {
  type AbuseScene,
  openAbuseScene,
  type ProbeResult,
  printProbes,
  recordProbe,
  runProbes,
  webhookProbe,
} from './abuse-probes.ts'

const attackedSlugs = ['one', 'two', 'three', 'four']
const otherSlug = 'five'
const keyOf = (slug: string) => `lk_test_${slug}_0123456789abcdef0123456789abcdef`
const manifests = [...attackedSlugs, otherSlug].map((slug) => webhookTenantYaml(slug, keyOf(slug))).join('')
const spellMs = 2_000
const announcedBytes = 65_536
const halfBytes = 32_768
/** More than the maximum of incomplete bodies per process. */
const tooMany = 3_000
const attackMsMax = 30_000

const scenes: AbuseScene[] = []
let direct: AbuseScene
let undisturbed: ProbeResult[]

beforeAll(async () => {
  direct = await openScene()
  undisturbed = await runProbes(probesOf(direct), spellMs)
}, 60_000)
afterAll(async () => {
  for (const scene of scenes) await scene.close()
})

async function openScene(env: Readonly<Record<string, string>> = {}): Promise<AbuseScene> {
  // Enables the spool: on a busy machine Postgres may take over two seconds, and the event is then spooled (202), which also counts as
  // success.
  const scene = await openAbuseScene(manifests, { LATCHKEY_REDIS_SPOOL_DURABLE: 'true', ...env })
  scenes.push(scene)
  await runProbes(probesOf(scene), 1_000)
  return scene
}

const portOf = (scene: AbuseScene) => Number(new URL(scene.api.url).port)
const slugOf = (n: number) => attackedSlugs[n % attackedSlugs.length] ?? ''

function probesOf(scene: AbuseScene, headers: Record<string, string> = {}) {
  const { url } = scene.api
  return [
    webhookProbe('webhooks of an attacked tenant', { url, slug: 'one', headers }),
    webhookProbe('webhooks of another tenant', { url, slug: otherSlug, headers }),
    webhookProbe('webhooks of 20 KB of another tenant', { url, slug: otherSlug, headers, bytes: 20_000 }),
    webhookProbe('webhooks of 60 KB of another tenant', { url, slug: otherSlug, headers, bytes: 60_000 }),
    recordProbe('records of an attacked tenant', { url, apiKey: keyOf('one') }),
    recordProbe('records of another tenant', { url, apiKey: keyOf(otherSlug) }),
  ]
}

/** Returns the number of bodies answered with `body_dropped`. */
async function evictedBy({ api }: AbuseScene): Promise<number> {
  const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
  const counts = metrics.matchAll(/^latchkey_http_requests_total\{[^}]*outcome="body_dropped"[^}]*\} (\d+)/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

interface Attacked {
  readonly scene?: AbuseScene
  /** Expects that memory or places run out. Default true. */
  readonly isPressing?: boolean
  /** Probes of legitimate calls. */
  readonly headers?: Record<string, string>
  /** Runs during the attack. */
  beside?(): Promise<void>
}

async function expectUnharmed(
  name: string,
  options: Omit<AttackOptions, 'port'>,
  { scene = direct, isPressing = true, headers, beside }: Attacked = {},
): Promise<ProbeResult[]> {
  const before = await evictedBy(scene)
  const attack = await startAttack({ port: portOf(scene), ...options })
  const [attacked] = await Promise.all([runProbes(probesOf(scene, headers), spellMs), beside?.()])
  printProbes(name, undisturbed, attacked)
  const answers = [...attack.answers].map(([line, count]) => `${count} of the attacker's got ${line}`)
  console.log(`${name}: ${attack.open()} connections of the attacker open; ${answers.join(', ')}`)
  attack.end()
  const evicted = (await evictedBy(scene)) - before
  console.log(`${name}: ${evicted} bodies evicted`)
  if (isPressing) expect(evicted).toBeGreaterThan(0)
  for (const { sent, succeeded } of attacked) expect(succeeded / sent).toBeGreaterThanOrEqual(0.99)
  return attacked
}

const headOf = (n: number) => webhookHead(slugOf(n), announcedBytes)
const recordHead = (n: number) =>
  `POST /v1/record HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keyOf(slugOf(n))}\r\nContent-Length: ${announcedBytes}\r\n\r\n`

const nearlyMebibyte = 'x'.repeat(1024 * 1024 - 1)
const mebibyteOf = (n: number) => webhookHead(slugOf(n), 1024 * 1024) + nearlyMebibyte

test.each<[string, Omit<AttackOptions, 'port'>]>([
  [
    '44 connections from 14 addresses that send all but one byte of 1 MiB and stall',
    { connections: 44, begin: mebibyteOf, sourceOf: (n) => `127.0.9.${1 + (n % 14)}` },
  ],
  [
    '88 connections from one address that send all but one byte of 1 MiB and stall',
    { connections: 88, begin: mebibyteOf },
  ],
  [`${tooMany} connections that announce 64 KiB and send nothing`, { connections: tooMany, begin: headOf }],
  [
    '840 calls of four API keys that send all but one byte of 64 KiB and stall',
    { connections: 840, begin: (n) => recordHead(n) + 'x'.repeat(announcedBytes - 1) },
  ],
  [
    `${tooMany} connections from 840 addresses that announce 64 KiB and send a byte a second`,
    {
      connections: tooMany,
      begin: (n) => `${headOf(n)}x`,
      trickle: 'x',
      sourceOf: (n) => `127.0.${1 + (Math.floor(n / 250) % 4)}.${1 + (n % 210)}`,
    },
  ],
  [
    '840 connections that send all but one byte of 64 KiB and stall',
    { connections: 840, begin: (n) => headOf(n) + 'x'.repeat(announcedBytes - 1) },
  ],
  [
    '2 000 connections that send all but one byte of 32 KiB and stall',
    { connections: 2_000, begin: (n) => webhookHead(slugOf(n), halfBytes) + 'x'.repeat(halfBytes - 1) },
  ],
])(
  'abuse, bodies: signed calls and record calls succeed during %s',
  async (name, options) => {
    await expectUnharmed(name, options)
  },
  attackMsMax,
)

const isSuccess = (status: number) => status === 200 || status === 202

/** Sends a signed call whose second half follows after `pauseMs`; returns its status, or 0 if the connection closed. */
function sendSlowly(
  scene: AbuseScene,
  { slug, pauseMs, headers = '' }: { slug: string; pauseMs: number; headers?: string },
) {
  const { promise, resolve } = Promise.withResolvers<number>()
  const { body, headers: signed } = signGeneric(genericBody(crypto.randomUUID(), { note: 'x'.repeat(900) }))
  const more = Object.entries(signed).map(([name, value]) => `${name}: ${value}\r\n`)
  const socket = connect({ port: portOf(scene), host: '127.0.0.1' }, () => {
    socket.write(webhookHead(slug, body.length, more.join('') + headers) + body.slice(0, 500))
    setTimeout(() => socket.write(body.slice(500)), pauseMs)
  })
  socket.on('data', (bytes) => {
    resolve(Number(bytes.toString('latin1').slice(9, 12)))
    socket.destroy()
  })
  socket.on('error', () => undefined)
  socket.on('close', () => resolve(0))
  return promise
}

test.each<[string, Omit<AttackOptions, 'port'>]>([
  ['840 connections that announce 64 KiB and send nothing', { connections: 840, begin: headOf }],
  [
    '840 connections that announce 64 KiB and send a byte a second',
    { connections: 840, begin: (n) => `${headOf(n)}x`, trickle: 'x' },
  ],
])(
  'abuse, bodies: signed calls and record calls succeed without eviction during %s',
  async (name, options) => {
    await expectUnharmed(name, options, { isPressing: false })
  },
  attackMsMax,
)

test(
  'abuse, bodies: no call is refused if all callers are behind an untrusted proxy',
  async () => {
    const statuses = await Promise.all(
      Array.from({ length: 1_000 }, (_none, n) =>
        sendSlowly(direct, {
          slug: slugOf(n),
          pauseMs: 1_000,
          headers: `X-Forwarded-For: 203.0.113.${n % 250}\r\n`,
        }),
      ),
    )
    const succeeded = statuses.filter(isSuccess).length
    console.log(`one source address: 1 000 concurrent calls that arrive in two parts: ${succeeded} succeeded`)
    expect(succeeded).toBe(1_000)
    const attacked = await expectUnharmed(
      'one address, and an attack from the same address',
      {
        connections: 840,
        begin: headOf,
      },
      { isPressing: false },
    )
    for (const { sent, succeeded: all } of attacked) expect(all).toBe(sent)
  },
  attackMsMax,
)

test(
  'abuse, bodies: X-Forwarded-For of a trusted proxy separates attackers from slow legitimate callers',
  async () => {
    const scene = await openScene({ LATCHKEY_TRUSTED_PROXIES: '127.0.0.1/32' })
    const statuses: number[] = []
    await expectUnharmed(
      'behind a trusted proxy',
      {
        connections: tooMany,
        begin: (n) =>
          webhookHead(slugOf(n), announcedBytes, 'X-Forwarded-For: 198.51.100.7\r\n') + 'x'.repeat(4_000),
      },
      {
        scene,
        headers: { 'X-Forwarded-For': '203.0.113.9' },
        beside: async () => {
          const calls = Array.from({ length: 50 }, () =>
            sendSlowly(scene, { slug: 'one', pauseMs: 2_000, headers: 'X-Forwarded-For: 203.0.113.10\r\n' }),
          )
          statuses.push(...(await Promise.all(calls)))
        },
      },
    )
    const succeeded = statuses.filter(isSuccess).length
    console.log(`behind a trusted proxy: 50 calls that take 2 s to arrive: ${succeeded} succeeded`)
    expect(succeeded).toBe(50)
  },
  attackMsMax,
)
