import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { keyRingText, openTenants } from '#test/support/api.ts'
import { startReceiver } from '#test/support/events/callback-receiver.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { testStores } from '#test/support/stores.ts'
import { root, type SourceFunction, type Sources } from './sources.ts'

const waitMs = { deadlineMs: 25_000, everyMs: 5 }
const warmUps = 3
const recordings = 5
const webhooksMax = 40
/** Function of the forwarder that reads a handed event. A webhook that a forwarder claimed instead does not call it and is no example. */
const handedFunction = 'decodeHandOff'
/** Time after the completion in which the processes may still finish the webhook's last step. */
const restMs = 25

/** A called function: the number of calls up to its first one and up to its last one. */
export interface RecordedCall extends SourceFunction {
  readonly first: number
  readonly last: number
}

/** Calls of one webhook in each process, in order of the first call. */
export interface Recording {
  readonly api: readonly RecordedCall[]
  readonly forwarder: readonly RecordedCall[]
}

/** Sends webhooks one after another to an API from source, which hands them to a forwarder from source, and returns the calls of each. */
export async function recordWebhooks({ marked, functions }: Sources): Promise<Recording[]> {
  const dir = await mkdtemp(join(tmpdir(), 'latchkey-path-'))
  const markedPath = join(dir, 'marked.json')
  await Bun.write(markedPath, JSON.stringify(marked))
  const database = await createMigratedDatabase()
  const { redisUrl } = await testStores()
  const receiver = startReceiver({ accepts: 'anything' })
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: database.url, applicationName: 'test path', ...bounds })
  const tenants = await openTenants(database.url, redisUrl)
  const callback = `callback: {url: "${receiver.url}", allowedCIDRs: [127.0.0.0/8]}`
  await tenants.apply(
    webhookTenantYaml('acme', 'lk_path_test_key_of_acme_0123456789').replace(/callback: .*/, callback),
  )
  const env = {
    MARKED_SOURCES: markedPath,
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
  }
  const [api, forwarder] = await Promise.all([
    startRecorded('api', env, functions),
    startRecorded('forwarder', env, functions),
  ])
  const send = async () => {
    const called = await fetch(`http://127.0.0.1:${api.port}/v1/t/acme/webhooks/generic`, {
      method: 'POST',
      ...signGeneric(genericBody()),
    })
    await called.body?.cancel()
    return called.ok || undefined
  }
  const completed = async (wanted: number) => {
    const isCompleted = async () => {
      const { rows } = await pool.query<{ count: number }>('SELECT count(*)::int AS count FROM attempts')
      return rows[0]?.count === wanted || undefined
    }
    if (!(await poll(isCompleted, waitMs))) throw new Error('a webhook was not delivered')
  }
  try {
    await poll(send, waitMs)
    await completed(1)
    const recorded: Recording[] = []
    for (let count = 2; recorded.length < recordings; count += 1) {
      if (count > webhooksMax)
        throw new Error(`${recorded.length} of ${count} webhooks were handed to a forwarder`)
      await Bun.sleep(restMs)
      await Promise.all([api.calls(), forwarder.calls()])
      await send()
      await completed(count)
      await Bun.sleep(restMs)
      const calls = { api: await api.calls(), forwarder: await forwarder.calls() }
      const isHanded = calls.forwarder.some(({ node }) => node.name?.getText() === handedFunction)
      if (count > warmUps && isHanded) recorded.push(calls)
    }
    return recorded
  } finally {
    await Promise.all([api.stop(), forwarder.stop()])
    await receiver.stop()
    await tenants.close()
    await pool.end()
    await database.drop()
    await rm(dir, { recursive: true })
  }
}

async function startRecorded(
  name: 'api' | 'forwarder',
  env: Readonly<Record<string, string>>,
  functions: readonly SourceFunction[],
) {
  const messages: unknown[] = []
  const child = Bun.spawn(
    [process.execPath, '--preload', join(import.meta.dir, 'record-calls.preload.ts'), `cmd/${name}/main.ts`],
    {
      cwd: root,
      env: {
        PATH: process.env['PATH'] ?? '',
        ...env,
        LATCHKEY_KEY_RING: keyRingText('test', 7),
        LATCHKEY_OPS_PORT: '0',
        ...(name === 'api'
          ? { LATCHKEY_API_PORT: '0', LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0' }
          : { LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' }),
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
      ipc: (message) => messages.push(message),
    },
  )
  return {
    port: await portOf(child.stdout),
    /** Returns the calls since it was asked before. */
    async calls(): Promise<RecordedCall[]> {
      const before = messages.length
      child.send('calls')
      return parseCalls(await poll(() => messages[before], waitMs), functions)
    },
    async stop() {
      child.kill()
      await child.exited
    },
  }
}

/** Returns the port that a process logs, and reads its output to the end, so that a full pipe does not stop it. */
function portOf(output: ReadableStream<Uint8Array>): Promise<string> {
  const listening = Promise.withResolvers<string>()
  void (async () => {
    let printed = ''
    const decoder = new TextDecoder()
    for await (const bytes of output) {
      printed += decoder.decode(bytes, { stream: true })
      const line = printed.split('\n').find((each) => each.includes('"listening"') && each.endsWith('}'))
      if (line !== undefined) listening.resolve(/"port":(\d+)/.exec(line)?.[1] ?? '')
    }
    listening.reject(new Error(`the process ended:\n${printed}`))
  })()
  return listening.promise
}

function parseCalls(message: unknown, functions: readonly SourceFunction[]): RecordedCall[] {
  if (!Array.isArray(message)) throw new Error('a process did not report its calls')
  return (message as [number, number, number][]).flatMap(([number, first, last]) => {
    const called = functions[number]
    return called ? [{ ...called, first, last }] : []
  })
}
