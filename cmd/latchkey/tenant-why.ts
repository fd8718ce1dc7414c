import type { Schemas } from './api-client.ts'

type TenantDetail = Schemas<'internal'>['TenantDetail']

/** Pause by the setting `forwarding.paused`: its owner, author and start. */
export interface Pause {
  readonly owner: 'installation' | 'tenant'
  readonly by: string | null
  readonly since: string | null
}

export interface ExplainedTenant {
  readonly tenant: Pick<
    TenantDetail,
    | 'namespace'
    | 'name'
    | 'slug'
    | 'suspended'
    | 'isReady'
    | 'conditions'
    | 'suspendedCallback'
    | 'breakerEndsAt'
    | 'manifestFile'
  >
  readonly pause: Pause | undefined
  readonly nowMs: number
}

/** Cause that holds the events of a tenant, and the command that ends the cause. */
export interface TenantExplanation {
  /** Reason of a condition, or one of `NoCallback`, `ForwardingPaused`, `BreakerOpen` and `InForce`. */
  readonly reason: string
  readonly sentence: string
  /** Command to run, with words in capitals to fill in. Absent if nothing holds the tenant, or the sentence says what to do. */
  readonly command?: string
}

/** Explains what holds the events of a tenant, by the most general cause. */
export function explainTenant({ tenant, pause, nowMs }: ExplainedTenant): TenantExplanation {
  const { namespace, name, slug, suspended, conditions, suspendedCallback, breakerEndsAt } = tenant
  const who = `${namespace}/${name}`
  if (suspended)
    return held('Suspended', `${who} is suspended: its calls are refused and nothing is delivered.`, tenant)
  const failing = conditions.find(
    ({ type, status }) => status === 'False' && type !== 'Ready' && type !== 'WalletEnabled',
  )
  const ready = conditions.find(({ type }) => type === 'Ready')
  const condition = failing ?? (ready?.status === 'False' ? ready : undefined)
  if (suspendedCallback && (condition === undefined || condition.reason === 'CallbackSuspended')) {
    const { suspendedAt, cause } = suspendedCallback
    const sentence = `The callback of ${who} has been suspended since ${suspendedAt} (${cause}): fix it, then resume it.`
    return held('CallbackSuspended', sentence, tenant)
  }
  if (condition) {
    const { type, reason, message } = condition
    return held(reason, `${who} is not ready, since ${type} is False: ${message}.`, tenant)
  }
  if (conditions.some(({ reason }) => reason === 'NoCallback'))
    return {
      reason: 'NoCallback',
      sentence: `${who} is served and has no callback: its events wait until a subscription acknowledges them.`,
    }
  if (pause !== undefined) {
    const isOwn = pause.owner === 'tenant'
    const [scope, option] = isOwn ? [who, ` --tenant ${slug ?? 'TENANT'}`] : ['all tenants', '']
    const since = pause.since === null ? '' : ` since ${pause.since}`
    return {
      reason: 'ForwardingPaused',
      sentence: `Deliveries of ${scope} are paused by ${pause.by ?? 'the platform team'}${since} (setting forwarding.paused): events are accepted and wait, and use no attempt.`,
      command: `latchkey settings clear forwarding.paused${option}`,
    }
  }
  if (breakerEndsAt !== undefined && Date.parse(breakerEndsAt) > nowMs)
    return {
      reason: 'BreakerOpen',
      sentence: `Most recent calls to the callback of ${who} failed, so its circuit breaker is open: the next event is attempted at ${breakerEndsAt} as a probe, which uses an attempt of that event, and the others wait for a success; look at the attempts of its latest events in the dashboard.`,
    }
  if (!tenant.isReady) return held('Unknown', `${who} is not ready, but no condition gives a reason.`, tenant)
  return { reason: 'InForce', sentence: `${who} is served, and nothing blocks its deliveries.` }
}

function held(reason: string, sentence: string, tenant: ExplainedTenant['tenant']): TenantExplanation {
  const command = commandFor(reason, tenant)
  return { reason, sentence, ...(command !== undefined && { command }) }
}

/** Returns the command that ends the cause with this reason, if there is one. `internal/tenants/README.md` lists the reasons. */
function commandFor(reason: string, tenant: ExplainedTenant['tenant']): string | undefined {
  const { namespace, name, slug, manifestFile } = tenant
  // Suggests no command if a word would need quoting in a shell. Valid Kubernetes names never need it.
  if (![namespace, name, slug ?? ''].every((word) => /^[a-z0-9.-]*$/.test(word))) return undefined
  if (reason === 'CallbackSuspended') return `latchkey tenants resume ${namespace}/${name}`
  // Suggests no command, because the message already names the command or the file.
  if (reason === 'Forbidden' || reason === 'FileBroken') return undefined
  const remedy = remedyFor(reason, { namespace, name, slug })
  if (manifestFile === undefined) return remedy.inCluster
  if (reason === 'Retrying') return 'journalctl -u latchkey --lines 50'
  // Suggests only to edit the file, because the service reads the file when it changes.
  return `\${EDITOR:-vi} ${quoted(manifestFile ?? 'FILE-OF-THE-TENANT')}   # ${remedy.inFile ?? 'Tenant: what the sentence says'}`
}

function quoted(file: string): string {
  return /^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`
}

/** Returns a command for a cluster, and the change to the manifest for a folder. */
function remedyFor(
  reason: string,
  { namespace, name, slug }: Pick<ExplainedTenant['tenant'], 'namespace' | 'name' | 'slug'>,
): { readonly inCluster: string; readonly inFile?: string } {
  const tenant = `tenant ${name} -n ${namespace}`
  const patch = (spec: object) => `kubectl patch ${tenant} --type merge -p '${JSON.stringify({ spec })}'`
  switch (reason) {
    case 'Suspended':
      return { inCluster: patch({ suspended: false }), inFile: 'Tenant: spec.suspended: false' }
    case 'SlugTaken':
    case 'SlugAwaited':
    case 'SlugKept':
      return { inCluster: patch({ slug: 'SLUG' }), inFile: 'Tenant: spec.slug: SLUG' }
    case 'SlugImmutable':
      return { inCluster: patch({ slug }), inFile: `Tenant: spec.slug: ${slug}` }
    case 'SecretMissing':
    case 'SecretInvalid':
    case 'SecretTooShort':
    case 'StoredUnreadable':
    case 'KeyMissing':
    case 'KeyInvalid':
    case 'KeyInUse':
      return {
        inCluster: `kubectl edit secret SECRET -n ${namespace}`,
        inFile: 'Secret: what the sentence says, here or in another file of the folder',
      }
    case 'SecretNotLabelled':
      return {
        inCluster: `kubectl label secret SECRET -n ${namespace} latchkey.dev/tenant=${name}`,
        inFile: `Secret: metadata.labels: {latchkey.dev/tenant: ${name}}`,
      }
    case 'TooManyNamespaces':
      return {
        inCluster:
          'helm upgrade latchkey CHART -n latchkey --reuse-values --set operator.secrets.clusterWide=true',
      }
    case 'UrlRefused':
    case 'PortRefused':
    case 'PortNotListed':
    case 'AddressNotListed':
    case 'AddressNotAllowed':
      return { inCluster: patch({ callback: { url: 'URL' } }), inFile: 'Tenant: spec.callback.url: URL' }
    case 'AdoptRefused':
      return {
        inCluster: `kubectl annotate ${tenant} latchkey.dev/adopt-`,
        inFile: 'Tenant: metadata.annotations without latchkey.dev/adopt',
      }
    case 'NameTaken':
    case 'SpecInvalid':
      return { inCluster: `kubectl edit ${tenant}` }
    case 'Retrying':
      return { inCluster: 'kubectl logs -n latchkey deployment/latchkey-operator --tail 50' }
    default:
      return { inCluster: `kubectl describe ${tenant}` }
  }
}
