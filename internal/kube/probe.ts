import { isJsonObject } from '#internal/base/index.ts'
import type { Endpoint } from './endpoint.ts'
import { type KubeFailure } from './failure.ts'
import { createTransport, type Transport, type TransportOptions } from './transport.ts'

export type ProbeResult =
  | {
      readonly kind: 'ok'
      readonly facts: {
        readonly version: string
        /** Such as `system:serviceaccount:latchkey:latchkey-operator`. */
        readonly username: string
      }
    }
  /** Callers must not use the server, because this runtime does not verify the server or does not send the credentials. */
  | { readonly kind: 'unsafe'; readonly reason: string }
  /** The server did not respond or denied access; a retry may succeed. */
  | { readonly kind: 'unavailable'; readonly failure: KubeFailure }

/**
 * Verifies TLS and authentication before any other request: calls and watches that trust only a foreign CA must refuse the server (they
 * send no credentials), and the server must authenticate this process. The check is necessary because Bun's replacement of undici silently
 * drops the CA and the client certificate (oven-sh/bun#38840). Watches must reach the server over HTTP/2. Idempotent.
 */
export async function probeServer(
  options: TransportOptions,
  {
    strangerCa = foreignCa,
    watches = true,
  }: {
    /** PEM of a CA that did not sign the server's certificate. Default: a built-in CA. */
    readonly strangerCa?: string | undefined
    /** Requires HTTP/2, which watches need. Default true. */
    readonly watches?: boolean
  } = {},
): Promise<ProbeResult> {
  if (options.endpoint.server.startsWith('https:')) {
    const refused = await isForeignCaRefused(options, strangerCa)
    if (refused.kind !== 'ok') return refused
  }
  const transport = createTransport(options)
  const version = await transport.request({ method: 'GET', path: '/version', msMax: probeMsMax })
  if (version.kind !== 'ok') return { kind: 'unavailable', failure: version }
  const self = await transport.request({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    msMax: probeMsMax,
  })
  if (self.kind !== 'ok') return { kind: 'unavailable', failure: self }
  const username = textAt(self.value, ['status', 'userInfo', 'username'])
  if (username === '' || username === 'system:anonymous')
    return {
      kind: 'unsafe',
      reason: 'the API server did not authenticate this process: the credentials did not reach it',
    }
  const failure = watches ? await watchFailure(options, transport) : undefined
  if (failure !== undefined) return { kind: 'unavailable', failure }
  return { kind: 'ok', facts: { version: textAt(version.value, ['gitVersion']), username } }
}

const probeMsMax = 10_000

/** Opens and closes one stream, because without HTTP/2 every watch fails. Any response is a success. Skips plain http. */
async function watchFailure(
  options: TransportOptions,
  transport: Transport,
): Promise<KubeFailure | undefined> {
  if (!options.endpoint.server.startsWith('https:')) return undefined
  const opened = await transport.open({ path: '/version', msMax: probeMsMax })
  if (opened.kind !== 'ok') return opened.status > 0 ? undefined : opened
  await opened.value.close()
  return undefined
}

async function isForeignCaRefused(
  options: TransportOptions,
  ca: string,
): Promise<Extract<ProbeResult, { kind: 'unsafe' | 'unavailable' }> | { readonly kind: 'ok' }> {
  const { serverName } = await options.endpoint.credentials()
  const stranger: Endpoint = {
    ...options.endpoint,
    credentials: () => Promise.resolve({ ca, cert: undefined, key: undefined, serverName, headers: {} }),
  }
  const transport = createTransport({ ...options, endpoint: stranger })
  const opened = await transport.open({ path: '/version', msMax: probeMsMax })
  if (opened.kind === 'ok') await opened.value.close()
  for (const result of [
    await transport.request({ method: 'GET', path: '/version', msMax: probeMsMax }),
    opened,
  ]) {
    if (result.kind === 'ok' || result.status > 0) {
      const reason =
        'this runtime accepted the API server under a CA that did not sign it: TLS is not verified'
      return { kind: 'unsafe', reason }
    }
    // Other failures prove nothing about TLS. ERR_HTTP2_ERROR also counts as a refusal: a server without HTTP/2 cannot serve a watch.
    if (!certificateRefusals.has(result.code ?? '') && result.code !== 'ERR_HTTP2_ERROR')
      return { kind: 'unavailable', failure: result }
  }
  return { kind: 'ok' }
}

/** Error codes of OpenSSL and BoringSSL for a chain without a trusted CA. */
const certificateRefusals = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
])

function textAt(value: unknown, path: readonly string[]): string {
  let at = value
  for (const name of path) at = isJsonObject(at) ? at[name] : undefined
  return typeof at === 'string' ? at : ''
}

/** A CA that signed no certificate. Its key was discarded. Its expiry does not matter, since no certificate depends on it. */
const foreignCa = `-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIUK4KztRaDngSuIy7UTctGsuDJiOAwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOc2lnbmVkIG5vdGhpbmcwIBcNMjYxMTIxMTQxOTM5WhgPMjEy
NjEwMjgxNDE5MzlaMBkxFzAVBgNVBAMMDnNpZ25lZCBub3RoaW5nMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE+orlyMCbLiKGV8YWNdhPH9VdCowlLS9eW+EH+Uhl
+eU5HGuqyGbkqUiDqJL04dsWtvCG78A8l5weBqeDSsUQx6NTMFEwHQYDVR0OBBYE
FPrjiIrB2MWL5/whnMTNY2mjTuigMB8GA1UdIwQYMBaAFPrjiIrB2MWL5/whnMTN
Y2mjTuigMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgTIUwzQz6
hqVij7ksNo6Ds8Pj8JOExOkjdFGL8pQ32WkCIQDTpmyRfwlOMFWnbtEgmFq0JKV5
1yVbg/7SYVmddRdjpg==
-----END CERTIFICATE-----
`
