#!/usr/bin/env bash
# What action.yml runs: audit a model, gate the run, and leave JUnit XML and a summary. Exit code: that of the gate.
set -euo pipefail
evenli() { "${PYTHON:-python}" -m evenli "$@"; }

audit=(audit "$EVENLI_MODEL" --lang "${EVENLI_LANG:-en}" -o "$EVENLI_FOLDER" --json)
[ -z "${EVENLI_LIMIT:-}" ] || audit+=(--limit "$EVENLI_LIMIT")
read -r -a more <<<"${EVENLI_ARGUMENTS:-}"
evenli "${audit[@]}" ${more[@]+"${more[@]}"} >/dev/null

gate=(gate "$EVENLI_FOLDER" --junit "${EVENLI_FOLDER%/}-gate.xml")
[ -z "${EVENLI_POLICY:-}" ] || gate+=(--policy "$EVENLI_POLICY")
[ -z "${EVENLI_BASELINE:-}" ] || gate+=(--baseline "$EVENLI_BASELINE")
code=0
said=$(evenli "${gate[@]}") || code=$?
printf '%s\n' "$said"
case $code in 0) passed=true ;; 1) passed=false ;; *) passed= ;; esac
echo "passed=$passed" >>"${GITHUB_OUTPUT:-/dev/null}"
{
  echo "### evenli gate"
  # Indented by four, so that no name of a model becomes markup.
  printf '%s\n' "$said" | sed 's/^/    /'
  echo
  evenli export "$EVENLI_FOLDER" --as github
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
