import { type JsonObject, listed, memberAt, type TypeTable, textAt, typeTable } from '../../normalize.ts'

// The meaning of each event and action is from the vendor's page, read 2026-11:
// https://docs.github.com/en/webhooks/webhook-events-and-payloads

/** Normalized types by raw type. */
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
  // The vendor also sends this event for comments on pull requests.
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

/** The vendor also sends a push for a deleted branch or tag. */
function pushType(body: JsonObject): string {
  return memberAt(body, 'deleted') === true ? 'code.ref_deleted' : 'code.pushed'
}

function refType(body: JsonObject, action: 'created' | 'deleted'): string | undefined {
  const kind = textAt(body, 'ref_type')
  return kind === 'branch' || kind === 'tag' ? `code.${kind}_${action}` : undefined
}

function reviewType(body: JsonObject): string {
  return listed(reviewStates, textAt(body, 'review', 'state')?.toLowerCase()) ?? 'review.commented'
}

const reviewStates: Readonly<Record<string, string>> = {
  approved: 'review.approved',
  changes_requested: 'review.changes_requested',
}

/** Checks, suites, workflows and jobs share the same statuses and conclusions. */
function runType(body: JsonObject, member: string): string {
  const status = textAt(body, member, 'status')
  if (status === 'in_progress') return 'build.started'
  if (status !== 'completed') return 'build.queued'
  return listed(conclusions, textAt(body, member, 'conclusion')) ?? 'build.completed'
}

const conclusions: Readonly<Record<string, string>> = {
  success: 'build.succeeded',
  neutral: 'build.succeeded',
  failure: 'build.failed',
  timed_out: 'build.failed',
  startup_failure: 'build.failed',
  cancelled: 'build.cancelled',
  stale: 'build.cancelled',
  skipped: 'build.skipped',
  action_required: 'build.action_required',
}

function statusType(body: JsonObject): string | undefined {
  return listed(commitStates, textAt(body, 'state'))
}

const commitStates: Readonly<Record<string, string>> = {
  pending: 'build.started',
  success: 'build.succeeded',
  failure: 'build.failed',
  error: 'build.failed',
}
