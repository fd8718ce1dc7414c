import type { SourceState, TenantManifest, TenantSource } from '#internal/tenants/index.ts'

/** The host that stands for the sink in a manifest's callback, since its port is known at the start only. */
const sinkHost = 'sink.localhost'

/** The same source, with the sink's address in each callback at `http://sink.localhost`, whose path stays. */
export function withSinkAddress(source: TenantSource, sinkUrl: string): TenantSource {
  let last: { readonly from: SourceState; readonly to: SourceState } | undefined
  return {
    uidPrefix: source.uidPrefix,
    async read() {
      const from = await source.read()
      // An unchanged state is given again as it was, as the source does.
      if (last?.from !== from)
        last = { from, to: { ...from, tenants: from.tenants.map((each) => fillIn(each, sinkUrl)) } }
      return last.to
    },
    readSecret: (namespace, name) => source.readSecret(namespace, name),
    writeSecret: (secret) => source.writeSecret(secret),
    onHint: (listener) => source.onHint(listener),
  }
}

function fillIn(manifest: TenantManifest, sinkUrl: string): TenantManifest {
  const { callback } = manifest.spec
  const url = URL.parse(callback.url)
  if (url?.protocol !== 'http:' || url.hostname !== sinkHost) return manifest
  url.host = new URL(sinkUrl).host
  return { ...manifest, spec: { ...manifest.spec, callback: { ...callback, url: url.href } } }
}
