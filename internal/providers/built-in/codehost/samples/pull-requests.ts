import { api, baseSha, developer, headSha, label, milestone, reviewer, type Sample, web } from './scene.ts'

const repo = {
  id: 612_004_881,
  name: 'order-service',
  full_name: 'acme-example/order-service',
  private: true,
}
const pull = {
  url: `${api}/pulls/318`,
  html_url: `${web}/pull/318`,
  diff_url: `${web}/pull/318.diff`,
  id: 2_204_117_339,
  node_id: 'PR_kwDOJHpZUc6DYBQL',
  number: 318,
  state: 'open',
  locked: false,
  title: 'Round totals half to even',
  body: 'Fixes #311.',
  user: developer,
  draft: false,
  created_at: '2026-11-10T08:31:40Z',
  updated_at: '2026-11-10T09:12:05Z',
  closed_at: null,
  merged_at: null,
  merge_commit_sha: 'c14be70592ad683f0e9d4b71a2085ce6fb39d704',
  assignee: null,
  assignees: [],
  requested_reviewers: [],
  requested_teams: [],
  labels: [],
  milestone: null,
  auto_merge: null,
  active_lock_reason: null,
  author_association: 'MEMBER',
  head: { label: 'acme-example:half-even', ref: 'half-even', sha: headSha, repo },
  base: { label: 'acme-example:main', ref: 'main', sha: baseSha, repo },
}
/** Counts and merge state, which only `pull_request` events contain. */
const counts = {
  merged: false,
  mergeable: true,
  mergeable_state: 'clean',
  merged_by: null,
  comments: 1,
  review_comments: 2,
  commits: 1,
  additions: 14,
  deletions: 6,
  changed_files: 2,
}
const full = { ...pull, ...counts }
const withReviewers = { ...full, requested_reviewers: [reviewer] }
const closed = { ...full, state: 'closed', closed_at: '2026-11-10T09:20:33Z' }
const autoMerge = {
  enabled_by: developer,
  merge_method: 'squash',
  commit_title: 'Round totals half to even (#318)',
  commit_message: '',
}
const review = {
  id: 2_590_113_402,
  node_id: 'PRR_kwDOJHpZUc6aYXxq',
  user: reviewer,
  body: 'Looks right.',
  commit_id: headSha,
  submitted_at: '2026-11-10T09:12:04Z',
  state: 'approved',
  html_url: `${web}/pull/318#pullrequestreview-2590113402`,
  pull_request_url: `${api}/pulls/318`,
  author_association: 'MEMBER',
}
const comment = {
  id: 1_883_204_511,
  node_id: 'PRRC_kwDOJHpZUc5wP2Ef',
  url: `${api}/pulls/comments/1883204511`,
  pull_request_review_id: 2_590_113_402,
  path: 'src/total.ts',
  commit_id: headSha,
  original_commit_id: headSha,
  line: 24,
  original_line: 24,
  side: 'RIGHT',
  start_line: null,
  position: 4,
  original_position: 4,
  start_side: null,
  original_start_line: null,
  diff_hunk: '@@ -21,4 +21,4 @@ export function total()',
  subject_type: 'line',
  user: reviewer,
  body: 'What happens at exactly one half?',
  author_association: 'MEMBER',
  created_at: '2026-11-10T09:11:30Z',
  updated_at: '2026-11-10T09:11:30Z',
  html_url: `${web}/pull/318#discussion_r1883204511`,
}

const mergeGroup = {
  head_sha: 'e07b2c6d41f85a930cb7e4d18f62a5093bd1c74e',
  base_sha: baseSha,
  head_ref: `refs/heads/gh-readonly-queue/main/pr-318-${baseSha}`,
  base_ref: 'refs/heads/main',
  head_commit: {
    id: 'e07b2c6d41f85a930cb7e4d18f62a5093bd1c74e',
    tree_id: '7f1c0a94d5e2b6380c5d9e71a84b2f6c03de5197',
    message: 'Merge pull request #318 from acme-example/half-even',
    timestamp: '2026-11-10T09:18:44Z',
    author: { name: 'Acme Developer', email: 'developer@example.com' },
    committer: { name: 'GitHub', email: 'noreply@example.com' },
  },
}

/** Examples of events about pull requests and reviews. */
export const pullRequests: Readonly<Record<string, Sample>> = {
  pull_request: {
    scope: 'repository',
    body: { action: '', number: 318, pull_request: full },
    byType: {
      'pull_request.updated': { changes: { title: { from: 'Round totals' } } },
      'pull_request.synchronized': { before: '30f9d1a75c82be4601d7f39a5b48c0e2716da9fb', after: headSha },
      'pull_request.converted_to_draft': { pull_request: { ...full, draft: true } },
      'pull_request.review_requested': { pull_request: withReviewers, requested_reviewer: reviewer },
      'pull_request.review_request_removed': { requested_reviewer: reviewer },
      'pull_request.merged': {
        pull_request: { ...closed, merged: true, merged_at: '2026-11-10T09:20:33Z', merged_by: reviewer },
      },
      'pull_request.closed': { pull_request: closed },
      'pull_request.assigned': {
        pull_request: { ...full, assignee: developer, assignees: [developer] },
        assignee: developer,
      },
      'pull_request.unassigned': { assignee: developer },
      'pull_request.labelled': { pull_request: { ...full, labels: [label] }, label },
      'pull_request.unlabelled': { label },
      'pull_request.milestoned': { pull_request: { ...full, milestone }, milestone },
      'pull_request.demilestoned': { milestone },
      'pull_request.locked': { pull_request: { ...full, locked: true, active_lock_reason: 'resolved' } },
      'pull_request.dequeued': { reason: 'CI_FAILURE' },
      'pull_request.auto_merge_enabled': { pull_request: { ...full, auto_merge: autoMerge } },
      'pull_request.auto_merge_disabled': { reason: 'Disabled by the author' },
      'pull_request.stacked': {
        stack: { id: 30_114, number: 7, size: 3, position: 2, base: { ref: 'main', sha: baseSha } },
      },
    },
  },
  pull_request_review: {
    scope: 'repository',
    body: { action: '', review, pull_request: pull },
    byType: {
      'review.changes_requested': { review: { ...review, body: 'One half needs a test.' } },
      'review.commented': { review: { ...review, body: null } },
      'review.updated': { changes: { body: { from: 'Looks good.' } } },
      'review.submitted': { review: { ...review, state: 'pending' } },
      'review.dismissed': { review: { ...review, state: 'dismissed' } },
    },
  },
  pull_request_review_comment: {
    scope: 'repository',
    body: { action: '', comment, pull_request: pull },
    byType: { 'review.comment_updated': { changes: { body: { from: 'And one half?' } } } },
  },
  pull_request_review_thread: {
    scope: 'repository',
    body: {
      action: '',
      pull_request: pull,
      thread: { node_id: 'PRRT_kwDOJHpZUc5Gd1Xk', comments: [comment] },
      updated_at: '2026-11-10T09:15:00Z',
    },
  },
  merge_group: {
    scope: 'repository',
    body: { action: '', merge_group: mergeGroup },
    byType: { 'merge_group.destroyed': { reason: 'merged' } },
  },
}
