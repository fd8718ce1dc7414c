import { type JsonObject, memberAt, textAt } from '../../event-body.ts'
import { listedType, type TypeTable, typeTable, unlistedType } from '../../event-type.ts'

// What each event and action means is from the vendor's page, read 2026-11:
// https://docs.github.com/en/webhooks/webhook-events-and-payloads

/** The normalized type of a raw one; one that the table does not list becomes `codehost.<raw>`. */
export function codehostType(rawType: string, body: JsonObject): string {
  return listedType(codehostTypes, rawType, body) ?? unlistedType('codehost', rawType)
}

/** Raw types and what they become. */
export const codehostTypes: TypeTable = typeTable({
  push: pushType,
  create: (body) => refType(body, 'created'),
  delete: (body) => refType(body, 'deleted'),
  fork: 'code.forked',
  'commit_comment.created': 'code.commented',

  'pull_request.opened': 'review.opened',
  'pull_request.edited': 'review.updated',
  'pull_request.synchronize': 'review.updated',
  'pull_request.ready_for_review': 'review.ready',
  'pull_request.converted_to_draft': 'review.drafted',
  'pull_request.review_requested': 'review.requested',
  'pull_request.reopened': 'review.reopened',
  'pull_request.closed': (body) =>
    memberAt(body, 'pull_request', 'merged') === true ? 'review.merged' : 'review.closed',
  'pull_request_review.submitted': reviewType,
  'pull_request_review.dismissed': 'review.dismissed',
  'pull_request_review_comment.created': 'review.commented',

  'issues.opened': 'issue.opened',
  'issues.edited': 'issue.updated',
  'issues.assigned': 'issue.assigned',
  'issues.labeled': 'issue.labelled',
  'issues.reopened': 'issue.reopened',
  'issues.closed': 'issue.closed',
  'issues.deleted': 'issue.deleted',
  // The vendor tells of comments on pull requests by this event too.
  'issue_comment.created': (body) =>
    memberAt(body, 'issue', 'pull_request') === undefined ? 'issue.commented' : 'review.commented',

  'check_run.created': (body) => runType(body, 'check_run'),
  'check_run.completed': (body) => runType(body, 'check_run'),
  'check_suite.requested': 'build.queued',
  'check_suite.completed': (body) => runType(body, 'check_suite'),
  'workflow_run.requested': 'build.queued',
  'workflow_run.in_progress': 'build.started',
  'workflow_run.completed': (body) => runType(body, 'workflow_run'),
  'workflow_job.queued': 'build.queued',
  'workflow_job.waiting': 'build.queued',
  'workflow_job.in_progress': 'build.started',
  'workflow_job.completed': (body) => runType(body, 'workflow_job'),
  status: statusType,

  'release.created': 'release.created',
  'release.edited': 'release.updated',
  'release.prereleased': 'release.prereleased',
  'release.published': 'release.published',
  'release.unpublished': 'release.unpublished',
  'release.deleted': 'release.deleted',
})

/** The end of a branch or a tag is pushed too. */
function pushType(body: JsonObject): string {
  return memberAt(body, 'deleted') === true ? 'code.ref_deleted' : 'code.pushed'
}

function refType(body: JsonObject, what: 'created' | 'deleted'): string | undefined {
  const kind = textAt(body, 'ref_type')
  return kind === 'branch' || kind === 'tag' ? `code.${kind}_${what}` : undefined
}

function reviewType(body: JsonObject): string {
  switch (textAt(body, 'review', 'state')?.toLowerCase()) {
    case 'approved':
      return 'review.approved'
    case 'changes_requested':
      return 'review.changes_requested'
    default:
      return 'review.commented'
  }
}

/** Checks, suites, workflows and their jobs share statuses and conclusions. */
function runType(body: JsonObject, member: string): string {
  const status = textAt(body, member, 'status')
  if (status === 'in_progress') return 'build.started'
  if (status !== 'completed') return 'build.queued'
  switch (textAt(body, member, 'conclusion')) {
    case 'success':
    case 'neutral':
      return 'build.succeeded'
    case 'failure':
    case 'timed_out':
    case 'startup_failure':
      return 'build.failed'
    case 'cancelled':
    case 'stale':
      return 'build.cancelled'
    case 'skipped':
      return 'build.skipped'
    case 'action_required':
      return 'build.action_required'
    default:
      return 'build.completed'
  }
}

function statusType(body: JsonObject): string | undefined {
  switch (textAt(body, 'state')) {
    case 'pending':
      return 'build.started'
    case 'success':
      return 'build.succeeded'
    case 'failure':
    case 'error':
      return 'build.failed'
    default:
      return undefined
  }
}
