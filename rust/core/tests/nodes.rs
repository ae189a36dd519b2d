//! Two nodes in one program, as in a forked child that has handles of its parent.

use inviso_core::host::{clock::Clock, control::Arm, node::Node, session::Options};

struct Nobody;

impl Arm for Nobody {
    fn arm(&self, _: &[(usize, u8)], _: u8) {}
}

#[test]
fn a_session_of_another_node_is_not_ended_here() {
    let (parent, child) = (Node::new(Clock::new()), Node::new(Clock::new()));
    let theirs = parent.session_create("theirs", 0, Options::default()).unwrap();
    assert!(!child.session_destroy(&theirs, &Nobody));
    let ours = child.session_create("ours", 0, Options::default()).unwrap();
    let another = parent.session_create("another", 0, Options::default()).unwrap();
    assert!(!child.session_destroy(&another, &Nobody));
    assert_eq!(child.sessions().iter().map(|session| session.id).collect::<Vec<_>>(), [ours.id]);
    assert!(child.session_destroy(&ours, &Nobody));
}
