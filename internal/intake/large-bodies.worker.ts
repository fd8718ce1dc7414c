import type { ReadRequest, ReadResponse } from './large-bodies.ts'
import type { ProviderCall } from './provider.ts'
import { findProvider } from './providers/registry.ts'
import { readCall } from './read-call.ts'

declare const self: Worker

self.addEventListener('message', (message: MessageEvent<ReadRequest>) => {
  const { number, providerName, secrets, headers, ...call } = message.data
  const provider = findProvider(providerName)
  if (!provider || !('prepare' in provider)) throw new Error(`no adapter for ${providerName}`)
  const whole: ProviderCall = { ...call, headers: new Headers(headers) }
  const response: ReadResponse = { number, reading: readCall(provider, whole, provider.prepare(secrets)) }
  postMessage(response)
})
