import type { ReadRequest, ReadResponse } from './large-bodies.ts'
import { readCall } from './normalize.ts'
import { findProvider } from './providers/registry.ts'

declare const self: Worker

self.addEventListener('message', (message: MessageEvent<ReadRequest>) => {
  const { number, providerName, secrets, headers, ...call } = message.data
  const provider = findProvider(providerName)
  if (!provider || !('prepare' in provider))
    throw new Error(`large-bodies worker: no adapter for ${providerName}`)
  const whole = { ...call, headers: new Headers(headers) }
  const response: ReadResponse = { number, reading: readCall(provider, whole, provider.prepare(secrets)) }
  postMessage(response)
})
