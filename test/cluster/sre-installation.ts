import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { genericBody, providerSecret, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { startApiProcess, startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { until } from '#test/support/until.ts'
import type { OperatorLab } from './operator-lab.ts'
import type { ScrapedProcess } from './sre-prometheus.ts'
import { entryOf } from './tenant-calls.ts'

/** API, forwarder and backoffice next to an operator, with one tenant `figures` that causes all kinds of outcomes. */
export interface WorkingInstallation {
  /** Processes to scrape, without the operator. */
  readonly processes: readonly ScrapedProcess[]
  /** Changes a Tenant; sends events that are accepted, refused, duplicate and failed; calls records; runs a simulation. Can be repeated. */
  work(): Promise<void>
  close(): Promise<void>
}

const slug = 'figures'
const here = { LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' }
const attemptsOfOne = 3
const knownMsMax = 60_000

/** Starts the processes in a lab, with the tenant in this namespace. */
export async function openInstallation(lab: OperatorLab, namespace: string): Promise<WorkingInstallation> {
  const receiver = startReceiver()
  await lab.addSecret(
    { namespace, name: `${slug}-provider`, tenant: slug },
    { signingSecret: providerSecret },
  )
  await lab.create(namespace, slug, {
    spec: {
      callback: {
        url: receiver.url,
        allowedCIDRs: ['127.0.0.0/8'],
        retry: { schedule: Array<string>(attemptsOfOne).fill('0s') },
      },
      providers: ['generic', 'card'].map((name) => ({ name, secretRef: { name: `${slug}-provider` } })),
      apiKeys: [{ name: 'default', scopes: ['records', 'webhooks', 'simulations'] }],
    },
  })
  await lab.ready(namespace, slug)
  const apiKey = entryOf(await lab.secret(namespace, `${slug}-key-default`), 'apiKey')
  const started: TestProcess[] = []
  const close = async () => {
    for (const each of started) each.signal('SIGTERM')
    await Promise.all(started.map(({ exited }) => exited))
    await receiver.stop()
  }
  try {
    const api = await startApiProcess(lab.stores)
    started.push(api)
    const more = { LATCHKEY_BACKOFFICE_PORT: '0', KUBECONFIG: lab.env['KUBECONFIG'] ?? '' }
    const others = (['forwarder', 'backoffice'] as const).map((name) => ({
      name,
      process: startProcess(name, { ...lab.stores, ...here, ...(name === 'backoffice' ? more : {}) }),
    }))
    started.push(...others.map(({ process }) => process))
    const scraped = others.map(async ({ name, process }) => {
      const { opsPort } = await process.logged('listening')
      return { name, opsUrl: `http://localhost:${String(opsPort)}` }
    })
    const call: Call = (path, body, { headers = {}, method = 'POST' } = {}) =>
      fetch(`${api.url}${path}`, {
        method,
        body,
        headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json', ...headers },
      })
    const isKnown = async () => (await call('/v1/record', '{}')).status === 400
    await until('the tenant is known to the API', isKnown, knownMsMax)
    const processes = [{ name: 'api', opsUrl: api.opsUrl }, ...(await Promise.all(scraped))]
    const touch = async () => {
      await lab.patch(namespace, slug, { spec: { displayName: crypto.randomUUID() } })
      await lab.ready(namespace, slug)
    }
    return {
      processes,
      work: () => Promise.all([touch(), work(call, receiver)]).then(() => undefined),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

type Call = (
  path: string,
  body: string,
  more?: { readonly headers?: Record<string, string>; readonly method?: string },
) => Promise<Response>

async function work(call: Call, receiver: CallbackReceiver): Promise<void> {
  const send = async (body: string, secret?: string) => {
    const { headers } = signGeneric(body, secret === undefined ? {} : { secret })
    const { status } = await call('/v1/webhooks/generic', body, { headers })
    return status
  }
  const before = receiver.calls.length
  receiver.answer(() => new Response(null, { status: 204 }))
  const body = genericBody()
  const statuses = [await send(body), await send(body), await send(genericBody(), 'guessed')]
  if (statuses.join() !== '200,200,400') throw new Error(`webhooks were answered ${statuses.join()}`)
  await receiver.received(before + 1)
  receiver.answer(() => new Response(null, { status: 500 }))
  await send(genericBody())
  await receiver.received(before + 1 + attemptsOfOne)
  receiver.answer(() => new Response(null, { status: 204 }))
  await records(call)
  const simulated = { provider: 'card', amount: 100, currency: 'USD', stepSeconds: 0 }
  const { status } = await call('/v1/simulate/chargeback', JSON.stringify(simulated))
  if (status !== 202) throw new Error(`a simulation was answered ${status}`)
}

async function records(call: Call): Promise<void> {
  const address = { scope: 'figures', key: crypto.randomUUID() }
  const locked = (await (await call('/v1/record', JSON.stringify(address))).json()) as { lockToken?: string }
  await call('/v1/record', JSON.stringify(address))
  const saved = { ...address, status: 200, headers: {}, body: {}, lockToken: locked.lockToken }
  await call('/v1/record', JSON.stringify(saved), { method: 'PUT' })
  const { status } = await call('/v1/record', JSON.stringify(address))
  if (status !== 200) throw new Error(`a record was answered ${status}`)
}
