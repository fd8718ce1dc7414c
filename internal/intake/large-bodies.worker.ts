import {
  type AnyProvider,
  adapterOf,
  findProvider,
  parsePublishedKeys,
  readCall,
} from '#internal/providers/index.ts'
import type { ReadRequest, ReadResponse } from './large-bodies.ts'

declare const self: Worker

/** Cache of declared providers by the JSON of their declarations. Cleared when it has too many. */
const compiled = new Map<string, AnyProvider>()
const compiledMax = 16

function adapterFor({ providerName, declared }: ReadRequest): AnyProvider | undefined {
  if (declared === undefined) return findProvider(providerName)
  const known = compiled.get(declared)
  if (known) return known
  if (compiled.size >= compiledMax) compiled.clear()
  const adapter = adapterOf(declared)
  compiled.set(declared, adapter)
  return adapter
}

self.addEventListener('message', (message: MessageEvent<ReadRequest>) => {
  const { number, providerName, declared: _, secrets, headers, published, ...call } = message.data
  const provider = adapterFor(message.data)
  if (!provider || !('prepare' in provider))
    throw new Error(`large-bodies worker: no adapter for ${providerName}`)
  const parsed = published && parsePublishedKeys(published.source, published.text)
  const keys = parsed?.kind === 'trusted' ? { published: parsed.keys } : {}
  const whole = { ...call, ...keys, headers: new Headers(headers) }
  const response: ReadResponse = { number, reading: readCall(provider, whole, provider.prepare(secrets)) }
  postMessage(response)
})
