import type { JsonObject } from '../../normalize.ts'
import { accounts, security } from './samples/accounts.ts'
import { builds } from './samples/builds.ts'
import { issues } from './samples/issues.ts'
import { pullRequests } from './samples/pull-requests.ts'
import { developer, installation, organization, repository, type Sample } from './samples/scene.ts'

const samples: Readonly<Record<string, Sample>> = {
  ...pullRequests,
  ...issues,
  ...builds,
  ...accounts,
  ...security,
}

const scopes: Readonly<Record<Sample['scope'], JsonObject>> = {
  repository: { repository, organization, sender: developer },
  organization: { organization, sender: developer },
  installation: { installation, sender: developer },
  sender: { sender: developer },
}

/** Returns an example payload of an event in the vendor's shape; '' stands for the action, if the event has actions. */
export function sampleOf(event: string, type: string): JsonObject {
  const sample = samples[event]
  if (sample === undefined) return {}
  const own = { ...sample.body, ...sample.byType?.[type] }
  // The event's own members come first, as the vendor writes them, and win over those of the scope.
  return { ...own, ...scopes[sample.scope], ...own }
}
