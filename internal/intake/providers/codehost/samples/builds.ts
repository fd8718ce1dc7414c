import {
  api,
  baseSha,
  developer,
  headCommit,
  headSha,
  repositoryReference,
  reviewer,
  type Sample,
  user,
  web,
} from './scene.ts'

const bot = user('acme-release[bot]', 41_200_380, 'Bot')
const app = {
  ...{ id: 15_368, slug: 'github-actions', name: 'GitHub Actions', node_id: 'MDM6QXBwMTUzNjg=' },
  ...{ description: 'Automate your workflow', external_url: 'https://help.github.com/en/actions' },
  ...{ owner: user('github', 9919, 'Organization'), html_url: 'https://github.com/apps/github-actions' },
  ...{ created_at: '2018-07-30T09:30:17Z', updated_at: '2026-02-11T12:11:09Z' },
}
const pullReference = {
  ...{ id: 2_204_117_339, number: 318, url: `${api}/pulls/318` },
  head: { ref: 'half-even', sha: headSha, repo: { id: 612_004_881, url: api, name: 'order-service' } },
  base: { ref: 'main', sha: baseSha, repo: { id: 612_004_881, url: api, name: 'order-service' } },
}
const workflow = {
  ...{ id: 90_117_402, node_id: 'W_kwDOJHpZUc4FXxT6', name: 'CI', path: '.github/workflows/ci.yml' },
  ...{ state: 'active', url: `${api}/actions/workflows/90117402` },
  ...{ html_url: `${web}/blob/main/.github/workflows/ci.yml` },
  ...{ created_at: '2025-02-18T08:00:00Z', updated_at: '2026-09-01T12:00:00Z' },
}
const run = {
  ...{ id: 11_762_003_458, node_id: 'WFR_kwLOJHpZUc8AAAACvRJ-Qg', name: 'CI', display_title: 'Round totals' },
  ...{ path: '.github/workflows/ci.yml', run_number: 1204, run_attempt: 1, event: 'pull_request' },
  ...{ status: 'queued', conclusion: null, workflow_id: 90_117_402, check_suite_id: 30_911_402_877 },
  ...{ check_suite_node_id: 'CS_kwDOJHpZUc8AAAAHMnTTvQ', head_branch: 'half-even', head_sha: headSha },
  ...{ actor: developer, triggering_actor: developer, pull_requests: [pullReference] },
  ...{ url: `${api}/actions/runs/11762003458`, html_url: `${web}/actions/runs/11762003458` },
  ...{ run_started_at: '2026-11-10T08:31:44Z', created_at: '2026-11-10T08:31:44Z' },
  ...{ updated_at: '2026-11-10T08:38:02Z', head_commit: headCommit },
  repository: repositoryReference,
}
const waitingRun = {
  ...{ id: run.id, node_id: run.node_id, name: 'CI', run_number: 1204, run_attempt: 1, event: 'push' },
  ...{ status: 'waiting', conclusion: null, workflow_id: run.workflow_id, path: run.path },
  ...{ head_branch: 'main', head_sha: headSha, actor: developer, html_url: run.html_url },
  ...{ created_at: run.created_at, updated_at: '2026-11-10T09:21:10Z' },
}
const completedRun = { workflow_run: { ...run, status: 'completed' } }
const job = {
  ...{ id: 32_764_410_925, run_id: 11_762_003_458, run_attempt: 1, node_id: 'CR_kwDOJHpZUc8AAAAHoOvJrQ' },
  ...{ name: 'test (24)', workflow_name: 'CI', head_branch: 'half-even', head_sha: headSha },
  ...{ status: 'queued', conclusion: null, labels: ['ubuntu-24.04'], steps: [] },
  ...{ runner_id: null, runner_name: null, runner_group_id: null, runner_group_name: null },
  ...{ created_at: '2026-11-10T08:31:46Z', started_at: '2026-11-10T08:31:46Z', completed_at: null },
  ...{ url: `${api}/actions/jobs/32764410925`, run_url: `${api}/actions/runs/11762003458` },
  ...{ html_url: `${web}/actions/runs/11762003458/job/32764410925` },
  check_run_url: `${api}/check-runs/32764410925`,
}
const runningJob = {
  ...{ ...job, status: 'in_progress', runner_id: 2917, runner_name: 'GitHub Actions 2917' },
  ...{ runner_group_id: 0, runner_group_name: 'GitHub Actions' },
  steps: [
    {
      ...{ name: 'Set up job', number: 1, status: 'in_progress', conclusion: null },
      ...{ started_at: '2026-11-10T08:31:50Z', completed_at: null },
    },
  ],
}
const completedJob = {
  workflow_job: { ...runningJob, status: 'completed', completed_at: '2026-11-10T08:37:51Z', steps: [] },
}
const check = {
  ...{ id: 32_764_410_925, node_id: 'CR_kwDOJHpZUc8AAAAHoOvJrQ', name: 'test (24)', head_sha: headSha },
  ...{ external_id: '4f0b5d0e-9c1a-5b0e-8d27-6a3f1c2e7b94', status: 'queued', conclusion: null, app },
  ...{ started_at: '2026-11-10T08:31:46Z', completed_at: null, pull_requests: [pullReference] },
  ...{ url: `${api}/check-runs/32764410925`, html_url: `${web}/actions/runs/11762003458/job/32764410925` },
  ...{ details_url: `${web}/actions/runs/11762003458/job/32764410925` },
  check_suite: { id: 30_911_402_877, head_branch: 'half-even', head_sha: headSha, status: 'in_progress' },
  output: {
    ...{ title: null, summary: null, text: null, annotations_count: 0 },
    annotations_url: `${api}/check-runs/32764410925/annotations`,
  },
}
const doneCheck = {
  ...check,
  status: 'completed',
  conclusion: 'success',
  completed_at: '2026-11-10T08:37:51Z',
}
const suite = {
  ...{ id: 30_911_402_877, node_id: 'CS_kwDOJHpZUc8AAAAHMnTTvQ', head_branch: 'half-even' },
  ...{ head_sha: headSha, before: baseSha, after: headSha, status: 'queued', conclusion: null },
  ...{ url: `${api}/check-suites/30911402877`, check_runs_url: `${api}/check-suites/30911402877/check-runs` },
  ...{ latest_check_runs_count: 3, pull_requests: [pullReference], app, head_commit: headCommit },
  ...{ created_at: '2026-11-10T08:31:43Z', updated_at: '2026-11-10T08:38:01Z' },
}
const commit = {
  ...{ sha: headSha, node_id: 'C_kwDOJHpZUdoAKGE5YzNmMWRl', url: `${api}/commits/${headSha}` },
  ...{ html_url: `${web}/commit/${headSha}`, author: developer, committer: developer },
  commit: {
    author: { name: 'Acme Developer', email: 'developer@example.com', date: '2026-11-10T08:31:02Z' },
    ...{ message: 'Round totals half to even', comment_count: 0 },
  },
  parents: [{ sha: baseSha, url: `${api}/commits/${baseSha}`, html_url: `${web}/commit/${baseSha}` }],
}
const deployment = {
  ...{ id: 1_844_120_377, node_id: 'DE_kwDOJHpZUc5t6x35', url: `${api}/deployments/1844120377` },
  ...{ sha: headSha, ref: 'main', task: 'deploy', payload: {}, description: null, creator: developer },
  ...{ environment: 'production', original_environment: 'production', production_environment: true },
  ...{
    transient_environment: false,
    repository_url: api,
    statuses_url: `${api}/deployments/1844120377/statuses`,
  },
  ...{ created_at: '2026-11-10T09:21:10Z', updated_at: '2026-11-10T09:24:48Z' },
}
const deploymentStatus = {
  ...{ id: 3_902_771_604, node_id: 'DES_kwDOJHpZUc7on1OU', state: 'queued', creator: developer },
  ...{ description: '', environment: 'production', environment_url: 'https://orders.example.com' },
  ...{ log_url: `${web}/actions/runs/11762003458/job/32764410925`, repository_url: api },
  ...{ target_url: `${web}/actions/runs/11762003458/job/32764410925` },
  ...{ url: `${api}/deployments/1844120377/statuses/3902771604` },
  ...{ deployment_url: `${api}/deployments/1844120377` },
  ...{ created_at: '2026-11-10T09:24:48Z', updated_at: '2026-11-10T09:24:48Z' },
}
const jobRun = {
  ...{ id: 1_844_120_377, name: null, environment: 'production', status: 'waiting', conclusion: null },
  ...{ html_url: `${web}/actions/runs/11762003458/job/32764410925` },
  ...{ created_at: '2026-11-10T09:21:10Z', updated_at: '2026-11-10T09:21:10Z' },
}
const environmentReviewer = { type: 'User', reviewer }
const release = {
  ...{ id: 184_220_913, node_id: 'RE_kwDOJHpZUc4K-v8x', tag_name: 'v2.4.0', name: '2.4.0' },
  ...{ target_commitish: 'main', draft: false, prerelease: false, immutable: false, author: bot, assets: [] },
  ...{ body: 'Totals are rounded half to even.', url: `${api}/releases/184220913` },
  ...{ html_url: `${web}/releases/tag/v2.4.0`, upload_url: `${api}/releases/184220913/assets` },
  ...{ tarball_url: `${api}/tarball/v2.4.0`, zipball_url: `${api}/zipball/v2.4.0` },
  ...{ created_at: '2026-11-10T09:20:33Z', published_at: '2026-11-10T09:30:00Z' },
}
const draft = { ...release, draft: true, published_at: null }
const packageVersion = {
  ...{
    id: 301_447_920,
    version: '2.4.0',
    name: '2.4.0',
    summary: '',
    description: 'Client of the order service',
  },
  ...{ tag_name: 'v2.4.0', target_commitish: 'main', target_oid: headSha, draft: false, prerelease: false },
  ...{ html_url: 'https://github.com/orgs/acme-example/packages/npm/order-client/301447920' },
  ...{ installation_command: 'npm install @acme-example/order-client@2.4.0', author: bot },
  ...{
    metadata: [],
    package_files: [],
    package_url: 'https://npm.pkg.github.com/@acme-example/order-client',
  },
  ...{ created_at: '2026-11-10T09:31:22Z', updated_at: '2026-11-10T09:31:22Z' },
}
const published = {
  ...{
    id: 3_118_405,
    name: 'order-client',
    namespace: 'acme-example',
    ecosystem: 'npm',
    package_type: 'npm',
  },
  ...{ description: 'Client of the order service', owner: user('acme-example', 58_310_442, 'Organization') },
  ...{ html_url: 'https://github.com/orgs/acme-example/packages/npm/package/order-client' },
  ...{
    created_at: '2025-06-02T10:00:00Z',
    updated_at: '2026-11-10T09:31:23Z',
    package_version: packageVersion,
  },
  registry: {
    ...{ name: 'GitHub npm registry', type: 'npm', vendor: 'GitHub Inc' },
    ...{ url: 'https://npm.pkg.github.com/@acme-example', about_url: 'https://help.github.com/packages' },
  },
}

/** Examples of events about commits, builds, deployments, releases and packages. */
export const builds: Readonly<Record<string, Sample>> = {
  push: {
    scope: 'repository',
    body: {
      ...{ ref: 'refs/heads/half-even', before: baseSha, after: headSha, base_ref: null },
      ...{
        created: false,
        deleted: false,
        forced: false,
        compare: `${web}/compare/5be07a1c94d3...a9c3f1de7b02`,
      },
      pusher: { name: 'acme-developer', email: 'developer@example.com' },
      commits: [
        {
          ...{ ...headCommit, distinct: true, url: `${web}/commit/${headSha}` },
          ...{ added: [], removed: [], modified: ['src/total.ts', 'src/total.test.ts'] },
        },
      ],
      head_commit: { ...headCommit, distinct: true, url: `${web}/commit/${headSha}` },
    },
    byType: {
      'code.ref_deleted': {
        ...{ before: headSha, after: '0'.repeat(40), commits: [], head_commit: null },
        compare: `${web}/compare/a9c3f1de7b02...000000000000`,
      },
    },
  },
  create: {
    scope: 'repository',
    body: {
      ...{ ref: 'half-even', ref_type: 'branch', master_branch: 'main' },
      ...{ description: 'Accepts and tracks orders', pusher_type: 'user' },
    },
    byType: { 'code.tag_created': { ref: 'v2.4.0' } },
  },
  delete: {
    scope: 'repository',
    body: { ref: 'half-even', ref_type: 'branch', pusher_type: 'user' },
    byType: { 'code.tag_deleted': { ref: 'v2.4.0' } },
  },
  commit_comment: {
    scope: 'repository',
    body: {
      action: '',
      comment: {
        ...{ id: 148_201_337, node_id: 'CC_kwDOJHpZUc4I1W1p', url: `${api}/comments/148201337` },
        ...{ html_url: `${web}/commit/${headSha}#commitcomment-148201337`, user: reviewer },
        ...{ commit_id: headSha, path: 'src/total.ts', line: 24, position: 3, author_association: 'MEMBER' },
        ...{
          body: 'This is the fix.',
          created_at: '2026-11-10T09:40:00Z',
          updated_at: '2026-11-10T09:40:00Z',
        },
      },
    },
  },
  gollum: {
    scope: 'repository',
    body: {
      pages: [
        {
          ...{ page_name: 'Rounding', title: 'Rounding', summary: null, action: 'edited', sha: headSha },
          html_url: `${web}/wiki/Rounding`,
        },
      ],
    },
  },
  page_build: {
    scope: 'repository',
    body: {
      id: 511_203_884,
      build: {
        ...{
          url: `${api}/pages/builds/511203884`,
          status: 'building',
          error: { message: null },
          pusher: developer,
        },
        ...{ commit: headSha, duration: 21_404, created_at: '2026-11-10T09:22:00Z' },
        updated_at: '2026-11-10T09:22:22Z',
      },
    },
  },
  release: {
    scope: 'repository',
    body: { action: '', release },
    byType: {
      'release.created': { release: draft },
      'release.prereleased': {
        release: { ...release, tag_name: 'v2.4.0-rc.1', name: '2.4.0-rc.1', prerelease: true },
      },
      'release.updated': { changes: { body: { from: 'Totals are rounded.' } } },
      'release.unpublished': { release: draft },
    },
  },
  package: { scope: 'repository', body: { action: '', package: published } },
  registry_package: { scope: 'repository', body: { action: '', registry_package: published } },
  workflow_run: {
    scope: 'repository',
    body: { action: '', workflow_run: run, workflow },
    byType: {
      'build.started': { workflow_run: { ...run, status: 'in_progress' } },
      ...byResult('build', completedRun),
      'build.completed': completedRun,
    },
  },
  workflow_dispatch: {
    scope: 'repository',
    body: {
      inputs: { environment: 'staging' },
      ref: 'refs/heads/main',
      workflow: '.github/workflows/ci.yml',
    },
  },
  workflow_job: {
    scope: 'repository',
    body: { action: '', workflow_job: job },
    byType: {
      'build_job.waiting': { workflow_job: { ...job, status: 'waiting' } },
      'build_job.started': { workflow_job: runningJob },
      ...byResult('build_job', completedJob),
      'build_job.completed': completedJob,
    },
  },
  check_run: {
    scope: 'repository',
    body: { action: '', check_run: doneCheck },
    byType: {
      'check.queued': { check_run: check },
      'check.started': { check_run: check },
      'check.completed': { check_run: { ...doneCheck, conclusion: null } },
      'check.action_requested': { requested_action: { identifier: 'fix-formatting' } },
    },
  },
  check_suite: {
    scope: 'repository',
    body: { action: '', check_suite: { ...suite, status: 'completed' } },
    byType: { 'check_suite.requested': { check_suite: suite } },
  },
  status: {
    scope: 'repository',
    body: {
      ...{ id: 32_204_118_007, sha: headSha, name: 'acme-example/order-service', context: 'ci/coverage' },
      ...{ state: 'pending', description: 'Coverage 96 %', target_url: 'https://ci.example.com/builds/1204' },
      ...{
        commit,
        branches: [{ name: 'half-even', commit: { sha: headSha, url: commit.url }, protected: false }],
      },
      ...{ created_at: '2026-11-10T08:38:10Z', updated_at: '2026-11-10T08:38:10Z' },
    },
  },
  deployment: { scope: 'repository', body: { action: '', deployment, workflow: null, workflow_run: null } },
  deployment_status: {
    scope: 'repository',
    body: { action: '', deployment_status: deploymentStatus, deployment },
    byType: { 'deployment.updated': { deployment_status: { ...deploymentStatus, state: 'destroyed' } } },
  },
  deployment_review: {
    scope: 'repository',
    body: {
      ...{ action: '', since: '2026-11-10T09:21:10Z', workflow_run: waitingRun, workflow_job_run: jobRun },
      reviewers: [environmentReviewer],
    },
    byType: {
      'deployment.review_requested': { environment: 'production', requestor: developer },
      'deployment.approved': { approver: reviewer, comment: 'Go.', workflow_job_runs: [jobRun] },
      'deployment.rejected': { approver: reviewer, comment: 'After the sale.', workflow_job_runs: [jobRun] },
    },
  },
  deployment_protection_rule: {
    scope: 'repository',
    body: {
      ...{ action: '', environment: 'production', event: 'push', deployment, pull_requests: [] },
      ...{ deployment_callback_url: `${api}/actions/runs/11762003458/deployment_protection_rule` },
      installation: { id: 47_118_920 },
    },
  },
}

/** Gives the same members to each result of a run. */
function byResult<Members>(noun: string, members: Members): Record<string, Members> {
  const results = ['succeeded', 'failed', 'cancelled', 'skipped', 'action_required']
  return Object.fromEntries(results.map((result) => [`${noun}.${result}`, members]))
}
