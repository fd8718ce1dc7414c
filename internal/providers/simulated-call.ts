import { createHmac } from 'node:crypto'
import type { JsonObject } from './normalize.ts'
import type { UnsignedCall } from './provider.ts'

/** Returns a call with a JSON body. */
export function jsonCall(body: JsonObject, headers: Readonly<Record<string, string>> = {}): UnsignedCall {
  return {
    body: Buffer.from(JSON.stringify(body)),
    headers: { 'content-type': 'application/json', ...headers },
  }
}

/** Returns the HMAC-SHA256 of concatenated parts. */
export function hmacOf(parts: readonly (string | Uint8Array)[], secret: string): Buffer {
  const hmac = createHmac('sha256', secret)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

/** Returns the value `t=…,v1=…` that signs a time with the body. */
export function timedSignature(body: Uint8Array, secret: string, atMs: number): string {
  const time = Math.floor(atMs / 1000)
  return `t=${time},v1=${hmacOf([`${time}.`, body], secret).toString('hex')}`
}
