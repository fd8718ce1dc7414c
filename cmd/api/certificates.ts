import { X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { systemClock } from '#internal/base/index.ts'
import { createOutbound, type Resolve } from '#internal/egress/index.ts'
import {
  type CertificateFetchOutcome,
  type CertificateSources,
  CertificateStore,
  certificateFetchOutcomes,
  createCertificateFetch,
  wallet,
  walletSources,
} from '#internal/intake/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Telemetry } from './telemetry.ts'

/** Where the wallet provider's certificates are and what they lead to. All of it is the vendor's unless given: tests give theirs. */
export interface CertificateConfig {
  readonly sources?: CertificateSources
  /** In PEM. */
  readonly roots?: readonly string[]
  /** What vouches for the servers that hold them, in PEM. */
  readonly serverCa?: string
  readonly resolve?: Resolve
  /** Networks beyond public ones where those servers may be. */
  readonly cidrs?: readonly string[]
}

/** Failures come many a second while somebody makes up addresses; one line a second says as much. */
const logMs = 1000

/** Opens the store of certificates, with its own way out and its metrics. */
export async function openCertificates(
  config: { readonly egressProxy?: string | undefined; readonly certificates?: CertificateConfig },
  telemetry: Telemetry,
  scope: Scope,
): Promise<CertificateStore> {
  const { sources = walletSources, roots, serverCa, resolve, cidrs = [] } = config.certificates ?? {}
  const outbound = await scope.open({
    name: 'calls for certificates',
    open: () =>
      createOutbound({
        cidrsMax: cidrs,
        ports: 'any',
        egressProxy: config.egressProxy,
        ca: serverCa,
        resolve,
      }),
    close: (opened) => opened.close(),
  })
  // What the runtime trusts by itself, and what NODE_EXTRA_CA_CERTS adds; not what the machine's own store holds.
  const trusted = (roots ?? [...tls.rootCertificates, ...tls.getCACertificates('extra')]).map(
    (pem) => new X509Certificate(pem),
  )
  const store = new CertificateStore({
    sources,
    fetchText: createCertificateFetch(outbound, cidrs),
    trust: (chain) => wallet.trust({ chain, roots: trusted }),
    clock: systemClock,
    onFetched: fetchObserver(telemetry),
  })
  telemetry.metrics.gauge({
    name: 'latchkey_webhooks_certificate_expiry_seconds',
    help: 'Time until the first of the providers’ signing certificates that were used within a day ends; +Inf without any.',
    labels: [],
    collect: (gauge) => gauge.with().set(store.secondsToExpiry ?? Number.POSITIVE_INFINITY),
  })
  return store
}

function fetchObserver({ log, metrics }: Telemetry) {
  const fetches = metrics.counter({
    name: 'latchkey_webhooks_certificate_fetches_total',
    help: 'Fetches of providers’ signing certificates, by what came of them.',
    labels: ['outcome'],
  })
  for (const outcome of certificateFetchOutcomes) fetches.with(outcome).inc(0)
  let loggedMs = Number.NEGATIVE_INFINITY
  return (outcome: CertificateFetchOutcome, detail?: string) => {
    fetches.with(outcome).inc()
    if (outcome === 'trusted' || performance.now() - loggedMs < logMs) return
    loggedMs = performance.now()
    log.warn({ outcome, cause: detail }, 'a provider’s signing certificate was not to be had')
  }
}
